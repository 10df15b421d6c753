// Package hosts reaches the daemons of other hosts, over ssh or NATS servers.
//
// Over ssh, "lineage stdio" runs there, and the API goes over it; the daemon there decides what is allowed, by the user that
// ssh logs in as. Over NATS servers another program is the client, and the API of each host goes through it.
package hosts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// List is a list of hosts as ssh accepts them.
type List []string

func (l *List) String() string { return strings.Join(*l, ",") }

func (l *List) Type() string { return "hosts" }

func (l *List) add(names ...string) error {
	for _, name := range names {
		if err := check(name); err != nil {
			return err
		}
		if !slices.Contains(*l, name) {
			*l = append(*l, name)
		}
	}
	return nil
}

// Bare is a host without the user that ssh logs in as.
func Bare(host string) string { return host[strings.LastIndexByte(host, '@')+1:] }

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
