// Package watch keeps the live picture, by revision, and sends it to its readers.
package watch
