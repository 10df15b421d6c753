package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// CompleteUsers completes names of this host's own users, and after a colon of its groups.
func CompleteUsers(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	user, group, second := strings.Cut(begun, ":")
	if second {
		return accounts("/etc/group", user+":", group), cobra.ShellCompDirectiveNoFileComp
	}
	return accounts("/etc/passwd", "", user), cobra.ShellCompDirectiveNoFileComp
}

// accounts are the names in a file such as /etc/passwd, with their numbers.
func accounts(file, before, begun string) (words []cobra.Completion) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(line, ":"); len(fields) > 2 && strings.HasPrefix(fields[0], begun) {
			words = append(words, cobra.CompletionWithDesc(before+fields[0], strings.TrimSpace(fields[2])))
		}
	}
	return words
}

// CompleteList completes the last word of a list.
func CompleteList(known []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1]
		for _, name := range known {
			if word := before + name; strings.HasPrefix(word, begun) {
				words = append(words, word)
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// CompleteFiles leaves the completion of file names to the shell.
func CompleteFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
