package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
)

// Choice is a flag that takes one of a few words.
type Choice struct {
	Value string
	Words []string
}

func (c *Choice) String() string { return c.Value }
func (c *Choice) Type() string   { return "word" }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Words, s) {
		return fmt.Errorf("one of %s", strings.Join(c.Words, ", "))
	}
	c.Value = s
	return nil
}

// List is a flag that takes words with commas between them.
type List struct{ Names []string }

func (c *List) String() string { return strings.Join(c.Names, ",") }
func (c *List) Type() string   { return "list" }

func (c *List) Set(text string) error {
	c.Names = nil
	for name := range strings.SplitSeq(text, ",") {
		c.Names = append(c.Names, strings.ToLower(strings.TrimSpace(name)))
	}
	return nil
}

// Abbreviate takes the beginnings of names, no two of which begin alike, as getopt_long(3) does.
func Abbreviate(f *pflag.FlagSet, names ...string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		for _, whole := range names {
			if name != "" && strings.HasPrefix(whole, name) {
				name = whole
			}
		}
		return pflag.NormalizedName(name)
	})
}

// FlagError says what is wrong with a flag, in the words of [Invalid] if it is the value.
// What a value of ours fails with is what it takes.
func FlagError(cmd *cobra.Command, err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if e, none := errors.AsType[*pflag.NotExistError](err); none && e.GetSpecifiedShortnames() != "" {
		name := e.GetSpecifiedName()
		err = fmt.Errorf("unknown flag -%s", name)
		if other := strings.ToUpper(name); cmd.Flags().ShorthandLookup(other) != nil {
			err = fmt.Errorf("%w, did you mean -%s?", err, other)
		} else if name == "i" || name == "t" {
			err = fmt.Errorf("%w: the command has the terminal of lineage, without -it", err)
		}
	}
	if !ok {
		return fmt.Errorf(`%w; see "%s --help"`, err, cmd.CommandPath())
	}
	takes := bad.Unwrap().Error()
	switch bad.GetFlag().Value.Type() {
	case "bool":
		takes = "true or false"
	case "duration":
		takes = aDuration
	case "int", "float64":
		takes = "a number"
	}
	return Invalid("--"+bad.GetFlag().Name, bad.GetValue(), takes)
}

// Grace adds --grace, whose value is nil unless it is given; unset says what holds then.
func Grace(f *pflag.FlagSet, grace **time.Duration, unset string) {
	f.Func("grace", "`TIME` between SIGTERM and SIGKILL, at most 10m (default "+unset+")", func(text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return errors.New(aDuration)
		case d < 0 || d > api.MaxGrace:
			return errors.New("0 to 10m")
		}
		*grace = &d
		return nil
	})
}

// Args requires between least and most arguments; what names them, or what an argument was meant for.
func Args(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Usage(`%s: %s is missing; see "%s --help"`, cmd.Name(), what, cmd.CommandPath())
		case len(args) > 0 && most == 0 && what != "":
			return Usage("%s: unexpected argument %q; %s", cmd.Name(), args[0], what)
		case len(args) > most:
			return Usage(`%s: unexpected argument %q; see "%s --help"`,
				cmd.Name(), args[most], cmd.CommandPath())
		}
		return nil
	}
}

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
