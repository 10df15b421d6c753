// Package hosts reaches the daemons of other hosts, over ssh or NATS servers.
//
// Over ssh, "lineage stdio" runs there, and the API goes over it; the daemon there decides what is allowed, by the user that
// ssh logs in as. Over NATS servers another program is the client, and the API of each host goes through it.
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

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// List is a list of hosts as ssh accepts them. It is the value of a flag: hosts
// separated by commas, and files with one host a line.
type List []string

func (l *List) String() string { return strings.Join(*l, ",") }

// Type is the value's name in help.
func (l *List) Type() string { return "hosts" }

// Set adds the hosts of text, each once.
func (l *List) Set(text string) error { return wanted(l.add(strings.Split(text, ",")...)) }

// wanted is an error with what the flag wants.
func wanted(err error) error {
	if err != nil {
		err = fmt.Errorf("hosts, @FILE or @GROUP; %w", err)
	}
	return err
}

// add adds hosts, and those of files.
func (l *List) add(words ...string) error {
	for _, word := range words {
		names := []string{word}
		if file, ok := strings.CutPrefix(word, "@"); ok {
			var err error
			if names, err = listed(file); err != nil {
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

// read is the content of a file that trust does not refuse.
func read(file string, trust func(*os.File) error) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have no writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := trust(f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(text) > mostBytes {
		err = fmt.Errorf("%s is larger than 1 MiB", file)
	}
	return text, err
}

// listed are the hosts of a file: one on each line, and comments that begin with #.
func listed(file string) (names []string, err error) {
	text, err := read(file, func(*os.File) error { return nil })
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			names = append(names, line)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no host is in %s", file)
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
		return errors.New("one is empty")
	case name[0] == '-':
		return fmt.Errorf("%q begins with -", name)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Errorf("%q contains blanks or control characters", name)
	case len(name) > 255:
		return fmt.Errorf("%.20q… is longer than 255 bytes", name)
	}
	return nil
}

// Print prints the hosts' answers, and returns the exit code as an error without text.
// "Not found" on one host is an answer, not an error, unless no host has it.
func Print(c *cli.Console, format string, answers []text.HostAnswer) error {
	if err := c.Print(format, text.Hosts(answers)); err != nil {
		return err
	}
	found, failed := 0, 0
	for i := range answers {
		switch answer := &answers[i]; {
		case answer.Err == nil:
			found++
		case answer.Exit != api.ExitNotFound:
			failed++
		}
		if format == "name" && answers[i].Err != nil {
			c.Complain(fmt.Errorf("%s: %w", answers[i].Host, answers[i].Err))
		}
	}
	switch {
	case failed > 0:
		return cli.Silent(api.ExitLeft)
	case found == 0:
		return cli.Silent(api.ExitNotFound)
	}
	return nil
}
