// Package arch holds the tests of the structure of the code: how large its parts
// are, and which package may import which.
package arch
