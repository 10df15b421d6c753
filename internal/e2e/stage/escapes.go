//go:build linux

package stage

import "strings"

// An Escape is a program of testdata/programs, and how many of its processes report
// that they are in place.
type Escape struct {
	Program string
	Members int
}

// Argv is the program's path and its arguments.
func (e Escape) Argv() []string {
	words := strings.Fields(e.Program)
	return append([]string{Program(words[0])}, words[1:]...)
}
