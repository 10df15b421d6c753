// Package stream sends events, from the ring and from the history, to their readers,
// and lines to the readers of any stream.
package stream
