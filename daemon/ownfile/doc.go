// Package ownfile opens files of the daemon in directories where another user may have made something
// else in their place.
package ownfile
