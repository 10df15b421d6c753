package help

import "github.com/spf13/cobra"

// former are commands that became flags of others. They work until the next version.
func former() []*cobra.Command {
	// now are the words that replace a command; in their place comes what a flag of it has become.
	command := func(name string, now []string, flags map[string][]string) *cobra.Command {
		return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(cmd *cobra.Command, args []string) error {
			words, rest := now, []string{}
			for _, arg := range args {
				if is, ok := flags[arg]; ok {
					words, rest = is[:1], append(rest, is[1:]...)
				} else {
					rest = append(rest, arg)
				}
			}
			cmd.Root().SetArgs(append(words, rest...))
			return cmd.Root().ExecuteContext(cmd.Context())
		}}
	}
	return []*cobra.Command{
		command("orphans", []string{"ls", "--left"}, map[string][]string{"--end": {"end", "--left"}, "--host": {"ls", "--outside"}}),
	}
}
