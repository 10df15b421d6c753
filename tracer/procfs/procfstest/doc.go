// Package procfstest makes file servers that do not answer, and processes of which procfs then does not
// answer either.
package procfstest
