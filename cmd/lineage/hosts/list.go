// Package hosts reaches the daemons of other hosts: ssh runs "lineage stdio" there, and
// the API goes over it. The daemon there decides what is allowed, by the user that ssh
// logs in as.
package hosts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// List is a list of hosts as ssh accepts them. It is the value of a flag: hosts
// separated by commas, and files with one host a line.
type List []string

func (l *List) String() string { return strings.Join(*l, ",") }

// Type is the value's name in help.
func (l *List) Type() string { return "hosts" }

// Set adds the hosts of text, each once.
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

// Bare is a host without the user that ssh logs in as.
func Bare(host string) string { return host[strings.LastIndexByte(host, '@')+1:] }

// mostBytes is how large a file of hosts may be.
const mostBytes = 1 << 20

// read reads a file of hosts: one on each line, and comments that begin with #.
func read(file string) (names []string, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have no writer
	if err != nil {
		return nil, fmt.Errorf("hosts, @FILE or @GROUP; %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("hosts, @FILE or @GROUP; %w", err)
	case len(text) > mostBytes:
		return nil, fmt.Errorf("hosts, @FILE or @GROUP; %s is larger than 1 MiB", file)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			names = append(names, line)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("hosts, @FILE or @GROUP; no host is in %s", file)
	}
	return names, nil
}

// Known are the hosts that the user's ssh configuration names, for completion.
func Known() (names []string) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(home, ".ssh/config"))
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.Replace(line, "=", " ", 1))
		if len(words) == 0 || !strings.EqualFold(words[0], "host") {
			continue
		}
		for _, name := range words[1:] {
			if check(name) == nil && !strings.ContainsAny(name, "*?!\",") && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// check refuses a name that ssh could take for an option, or that cannot be a host.
func check(name string) error {
	switch {
	case name == "":
		return errors.New("hosts, @FILE or @GROUP; one is empty")
	case name[0] == '-':
		return fmt.Errorf("hosts, @FILE or @GROUP; %q begins with -", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Errorf("hosts, @FILE or @GROUP; %q contains blanks or control characters", name)
	case len(name) > 255:
		return fmt.Errorf("hosts, @FILE or @GROUP; %.20q… is longer than 255 bytes", name)
	}
	return nil
}
