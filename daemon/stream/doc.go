// Package stream sends events and the live picture to their readers: events from the ring and from the history, the
// picture by revision.
package stream
