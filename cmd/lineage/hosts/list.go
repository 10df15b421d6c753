// Package hosts reaches the daemons of other hosts: ssh runs "lineage stdio" there, and
// the API goes over it. What may be done there is decided there, by the user that ssh
// logs in as.
package hosts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
)

// List are hosts as ssh takes them. It is the value of a flag: hosts with commas between
// them, and files with one host on each line.
type List []string

func (l *List) String() string { return strings.Join(*l, ",") }

// Type is how help calls the value.
func (l *List) Type() string { return "hosts" }

// Set adds the hosts of text, each of them once.
func (l *List) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		names := []string{word}
		if file, ok := strings.CutPrefix(word, "@"); ok {
			var err error
			if names, err = read(file); err != nil {
				return err
			}
		}
		for _, name := range names {
			if err := check(name); err != nil {
				return err
			}
			if !slices.Contains(*l, name) {
				*l = append(*l, name)
			}
		}
	}
	return nil
}

// read reads a file of hosts: one on each line, and comments that begin with #.
func read(file string) (names []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read hosts: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			names = append(names, line)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no host in %s", file)
	}
	return names, nil
}

// check refuses what ssh could take for an option, and what cannot be a host.
func check(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("invalid host %q: it is empty", name)
	case name[0] == '-':
		return fmt.Errorf("invalid host %q: must not begin with -", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Errorf("invalid host %q: must not contain blanks or control characters", name)
	case len(name) > 255:
		return fmt.Errorf("invalid host %.20q…: longer than 255 bytes", name)
	}
	return nil
}
