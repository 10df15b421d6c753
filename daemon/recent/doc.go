// Package recent keeps the recent events, once for all readers.
package recent
