// Package stream sends events, from the ring and from the history, and the live picture, by revision, to their readers,
// and lines to the readers of any stream.
package stream
