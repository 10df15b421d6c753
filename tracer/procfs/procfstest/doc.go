// Package procfstest makes file servers that do not answer, and processes of which procfs then does not
// answer either. It also writes the files of a procfs that a test makes.
package procfstest
