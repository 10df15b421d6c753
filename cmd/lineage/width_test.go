package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// shown are the command lines that print something for people.
var shown = []string{
	"ls", "ls --all", "tree", "tree build --all", "why 4130", "why 900", "why :8080", "why /nonexistent/lngtest", "end --dry-run build m8p4z1",
	"end -y build m8p4z1", "end -y old", "events", "history", "history old", "ls --left", "doctor", "version", "status",
	"policy show", "policy explain 4130", "adopt 4130 --name x", "ls --outside",
}

// onTerminal runs one command line with a terminal of that width as stdout and stderr.
func onTerminal(t *testing.T, c api.Client, columns int, args ...string) string {
	t.Helper()
	y := newTypist(t, columns, "", "", nil)
	w := newWorld(t, c)
	w.Stdout, w.Stderr = y.tty, y.tty
	w.vars["NO_COLOR"] = "1"
	w.main(t.Context(), args)
	return y.saw()
}

// At every width a line of output is one line of the terminal, whatever the names of
// processes. Lines on stderr may be longer: an error is not cut.
func TestWidths(t *testing.T) {
	for _, columns := range []int{40, 80, 120, 200} {
		for name, c := range map[string]func() *apitest.Client{"tame": newFake, "hostile": hostileFake} {
			for _, line := range shown {
				text := onTerminal(t, c(), columns, strings.Fields(line)...)
				if text == "" {
					t.Errorf("%s: nothing is shown", line)
				}
				if bad := unprintable(text); bad != "" {
					t.Errorf("%s at %d, %s: prints %q", line, columns, name, bad)
				}
				for l := range strings.Lines(text) {
					l = strings.TrimSuffix(l, "\n")
					if ansi.StringWidth(l) > columns && !strings.HasPrefix(l, "lineage: ") {
						t.Errorf("%s at %d, %s: %d columns: %s", line, columns, name, ansi.StringWidth(l), l)
					}
				}
			}
		}
	}
}

// Narrow and usual terminals, as they look.
func TestWidthsShown(t *testing.T) {
	for _, columns := range []int{40, 80} {
		var all strings.Builder
		for _, line := range shown {
			fmt.Fprintf(&all, "$ lineage %s\n%s", line, onTerminal(t, newFake(), columns, strings.Fields(line)...))
		}
		golden(t, fmt.Sprintf("columns %d", columns), all.String())
	}
}

// Every help text fits a terminal and has examples; every command is in a group.
func TestHelp(t *testing.T) {
	a := newWorld(t, newFake()).app
	a.host = thisHost()
	for _, cmd := range commands(a.root()) {
		if strings.HasPrefix(cmd.CommandPath(), "lineage completion") {
			continue // cobra's own
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		require.NoError(t, cmd.Help())
		for l := range strings.Lines(out.String()) {
			if l = strings.TrimSuffix(l, "\n"); ansi.StringWidth(l) > cli.HelpColumns {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), ansi.StringWidth(l), l)
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); name != strings.ToUpper(name) {
				t.Errorf("%s: --%s: the value is %q, want it in capitals", cmd.CommandPath(), f.Name, name)
			}
		})
		if !cmd.Runnable() {
			continue // a topic
		}
		if n := strings.Count(cmd.Example, "\n") + 1; cmd.Example == "" || n > 4 {
			t.Errorf("%s: no examples, or too many", cmd.CommandPath())
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && (cmd.GroupID == "") != cmd.Hidden {
			t.Errorf("%s: in no group, or hidden", cmd.CommandPath())
		}
	}
}

// What programs call is not in the way of people, and is explained to those who ask.
func TestPlumbing(t *testing.T) {
	_, overview, _ := newWorld(t, newFake()).run("--help")
	page := string(require.ReadFile(t, "../../docs/COMMANDS.md"))
	for _, name := range cli.Plumbing {
		if strings.Contains(overview, "\n  "+name+" ") {
			t.Errorf("%s is in\n%s", name, overview)
		}
		require.Contains(t, page, "\n## lineage "+name+"\n")
		for _, args := range [][]string{{"help", name}, {name, "--help"}} {
			if code, out, _ := newWorld(t, newFake()).run(args...); code != 0 || !strings.Contains(out, "lineage "+name) {
				t.Errorf("%s: exit %d, %s", args, code, out)
			}
		}
		require.Contains(t, overview, "\nStart here:\n  ls ", "\nAgents:\n  setup ", "\n  mcp ", "\nMany hosts:\n  link ")
	}
}

func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, commands(c)...)
	}
	return all
}

// Every example calls an existing command with existing flags.
func TestExamples(t *testing.T) {
	a := newWorld(t, newFake()).app
	a.host = thisHost()
	root := a.root()
	for _, cmd := range commands(root) {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, "#")
			line, _, _ = strings.Cut(line, "|")
			_, args, found := strings.Cut(line, "lineage ")
			if !found {
				t.Errorf("%s: an example that is not ours: %s", cmd.CommandPath(), line)
				continue
			}
			words, _, _ := strings.Cut(" "+args, " -- ")
			sub, rest, err := root.Find(strings.Fields(words))
			if err != nil || sub == root && len(rest) > 0 {
				t.Errorf("%s: %s: %v", cmd.CommandPath(), line, err)
				continue
			}
			for _, word := range rest {
				name, ok := strings.CutPrefix(word, "--")
				if name, _, _ = strings.Cut(name, "="); ok && name != "" && sub.Flag(name) == nil {
					t.Errorf("%s: %s: no flag --%s", cmd.CommandPath(), line, name)
				}
			}
		}
	}
}

// Topics are shown by name, with or without help.
func TestTopics(t *testing.T) {
	for _, args := range [][]string{{"help", "exit-codes"}, {"exit-codes"}, {"exit-codes", "--help"}} {
		if code, out, stderr := newWorld(t, nil).run(args...); code != 0 || !strings.Contains(out, "no daemon answers") {
			t.Errorf("%v: exit %d, %q %q", args, code, out, stderr)
		}
	}
}
