// Package cli is the command line: values of flags and how they are completed, help, errors with exit codes, and the
// console that a command reads from and writes to.
package cli
