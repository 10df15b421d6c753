package cli

import (
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

// HelpColumns is how wide a help text is at most.
const HelpColumns = 80

// groups are the commands by purpose, in the order of the overview.
var groups = []struct {
	title    string
	commands string
}{
	{"Start here", "run ls why top end"},
	{"Run", "timeout adopt init"},
	{"Inspect", "tree events history"},
	{"End", "wait pause resume keep halt"},
	{"Agents", "setup mcp"},
	{"Host", "daemon status doctor policy export version"},
	{"Many hosts", "link"},
}

// Plumbing is what programs call, not people: the overview does not show it, the manual does.
var Plumbing = []string{"completion", "hook", "stdio"}

// otherNames maps commands of other tools to ours that do the same.
var otherNames = map[string][]string{
	"kill": {"end"}, "stop": {"end"}, "rm": {"end"}, "delete": {"end"}, "terminate": {"end"},
	"log": {"events", "history"}, "logs": {"events", "history"},
	"inspect": {"why"}, "describe": {"why"}, "restart": {"daemon"}, "show": {"tree"},
	"stats": {"top"}, "attach": {"top"},
	"exec": {"run"}, "start": {"run"}, "list": {"ls"}, "get": {"ls"}, "sessions": {"ls"},
	"orphans": {"ls"}, "fleet": {"ls"}, "command": {"end"},
}

// HelpTopics are pages of help that belong to no command.
func HelpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "selection", Short: "How to say which sessions are meant", Long: `SESSION is one of

  web              a name or an id
  k3x              how an id begins; what ends or pauses sessions wants it whole
  'nightly-*'      names that match: *, ? and [a-z]; of at most 1024 sessions
  :3000, :53/udp   what has this port
  4130             what has this process, by PID or PID@START

Of these, or of all sessions without SESSION, flags select those

` + selecting(&api.Selection{}, nil).FlagUsagesWrapped(HelpColumns) + `
"ls --all" and "history --all" show more instead, and "ls --left" processes.

Commands that show sessions show all if nothing is selected; halt ends all; the
others refuse that. What "ls" shows of a selection is what "end" ends, except
what it spares and says so, unless a word alone names it: sessions of others,
kept ones and those with one inside that is kept or does not rest. What a
pattern or a flag selects is shown before a question.`},
		{Use: "environment", Short: "Variables that the commands read", Long: `LINEAGE_SOCKET    the daemon's socket (default ` + api.DefaultSocket + `);
                  --socket takes precedence
NO_COLOR          if set and not empty: no colours (--color always takes
                  precedence)
LC_ALL, LC_CTYPE, LANG
                  without UTF-8: "lineage tree" and "lineage top" draw ASCII
TERM              dumb: no colours, and "lineage top" prints the tree once
TZ                the zone in which times are shown
STATE_DIRECTORY   state of "lineage export" and "link"; --state takes precedence
LINEAGE_HOSTS     the groups of -H (default ~/.config/lineage/hosts.yaml, else
                  /etc/lineage/hosts.yaml)

"lineage run" sets LINEAGE_SESSION, the id of the session, and LINEAGE_TOKEN,
by which its processes are recognised, for the command.`},
		{Use: "exit-codes", Short: "Exit codes of the commands", Long: `0    success
1    failure, such as a refused confirmation or a name that is in use
2    wrong usage: an unknown command or flag, an invalid value, an ambiguous
     name
3    not found: the session, process, port or file
4    not permitted, or refused by a guard
5    no daemon answers, or one of another API version; no NATS server
6    a session was ended, and a process is left or may be left; with -H: not
     every host was reached, or not everything was ended
7    sessions cannot be tracked on this host, or "lineage doctor" does not run
     as root
8    not found in time; try again

"lineage run", "init" and "timeout" exit with what their command exits with,
128 + N if it died of signal N, 127 if it does not exist, 126 if it cannot be
executed, and 125 if they failed before it ran or could not write its receipt;
"timeout" with 124 at the deadline, "run" with 124 instead of 0 if a limit ended
the session, and "run --leaks fail" with 123 instead of 0 if a process is left.`},
		{Use: "files", Short: "Files that lineage reads and writes", Long: api.DefaultSocket + `      the daemon's socket
` + policy.DefaultFile + `       the policy, if there is one: lineage-policy(5)
/var/lib/lineage/history.db    ended sessions
/var/log/lineage/audit.jsonl   what was ended and what was refused
/run/lineage/daemon.log        log of a daemon that "lineage run" started
/sys/fs/bpf/lineage            programs and maps of the kernel side

With another socket, SOCKET, the history is in SOCKET.state, the logs are beside
SOCKET, and the programs are in /sys/fs/bpf/lineage-HASH. A policy is then read
only with --policy.`},
	}
}

// templateFuncs adds template functions, which all of cobra's commands share.
var templateFuncs = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("flags", func(f *pflag.FlagSet) string {
		shown, selects := pflag.NewFlagSet("", pflag.ContinueOnError), ""
		f.VisitAll(func(x *pflag.Flag) {
			if _, ok := x.Annotations[Selects]; ok {
				selects += " --" + x.Name
			} else {
				shown.AddFlag(x)
			}
		})
		text := strings.TrimRight(shown.FlagUsagesWrapped(HelpColumns), " \n")
		if selects != "" {
			text += "\n " + selects + "\n                  which sessions: lineage help selection"
		}
		return text
	})
	cobra.EnableCommandSorting = false
})

// AddHelp gives the commands of root their groups, topics, and help that fits a terminal.
func AddHelp(root *cobra.Command) {
	templateFuncs()
	usage := root.UsageTemplate()
	for _, set := range []string{".LocalFlags", ".InheritedFlags"} {
		usage = strings.ReplaceAll(usage, set+".FlagUsages | trimTrailingWhitespaces", "flags "+set)
	}
	usage = strings.ReplaceAll(usage, "Additional help topics:", "Topics:")
	root.SetUsageTemplate(usage)
	root.InitDefaultCompletionCmd()
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, name := range strings.Fields(group.commands) {
			if cmd, _, _ := root.Find([]string{name}); cmd != root { // and in this order
				cmd.GroupID = group.title
				root.RemoveCommand(cmd)
				root.AddCommand(cmd)
			}
		}
	}
	for _, name := range Plumbing {
		cmd, _, _ := root.Find([]string{name})
		cmd.Hidden = true
	}
	root.AddCommand(HelpTopics()...)
	root.SetHelpCommandGroupID("Host")
	root.SetHelpCommand(&cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "Help about a command or a topic",
		Example: "  lineage help end\n  lineage help exit-codes",
		GroupID: "Host",
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				at = &cobra.Command{}
			}
			for _, cmd := range at.Commands() {
				if strings.HasPrefix(cmd.Name(), begun) && !cmd.Hidden {
					words = append(words, cobra.CompletionWithDesc(cmd.Name(), cmd.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			at, rest, _ := root.Find(args)
			if len(rest) > 0 {
				return unknown("help topic", at, rest[0])
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	})
	withoutArgs(root)
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.SuggestionsMinimumDistance = Subcommand, 2
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	completion.Example = "  lineage completion bash > /etc/bash_completion.d/lineage\n  lineage completion zsh > \"${fpath[1]}/_lineage\""
}

// withoutArgs has the commands that say nothing of arguments refuse them.
func withoutArgs(cmd *cobra.Command) {
	if cmd.Args == nil && cmd.ValidArgsFunction == nil && cmd.Runnable() && cmd.HasParent() {
		cmd.Args, cmd.ValidArgsFunction = Args(0, 0, ""), cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		withoutArgs(sub)
	}
}

// Subcommand refuses an unknown subcommand of a command that has only subcommands.
func Subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknown("command", cmd, args[0])
}

// unknown says that cmd has no such command, and suggests one.
func unknown(what string, cmd *cobra.Command, name string) error {
	var meant []string
	if !cmd.HasParent() {
		meant = otherNames[name]
	}
	if len(meant) == 0 && name != "" {
		meant = cmd.SuggestionsFor(name)
		// A word of two letters is within two typing errors of most words.
		alike := slices.DeleteFunc(slices.Clone(meant), func(s string) bool { return s[0] != name[0] })
		if len(alike) > 0 {
			meant = alike
		}
	}
	switch {
	case len(meant) > 1:
		return Usage("unknown %s %q; did you mean %q or %q?", what, name, meant[0], meant[1])
	case len(meant) == 1:
		return Usage("unknown %s %q; did you mean %q?", what, name, meant[0])
	}
	return Usage(`unknown %s %q; see "%s --help"`, what, name, cmd.CommandPath())
}
