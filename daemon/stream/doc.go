// Package stream sends events to readers, of the ring and of the history, and lines to
// the readers of any stream.
package stream
