// Package watch keeps the live picture, by revision, and sends it to those who watch.
package watch
