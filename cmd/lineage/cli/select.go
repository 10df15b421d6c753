package cli

import (
	"errors"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
)

// Selects is the annotation of the flags of [Selection], which one topic of the help explains.
const Selects = "selects"

// Selection adds the flags that select sessions, except those whose names the command has. The arguments are its words.
func Selection(cmd *cobra.Command, euid func() int) *api.Selection {
	s := &api.Selection{}
	selecting(s, euid).VisitAll(func(x *pflag.Flag) {
		if cmd.Flags().Lookup(x.Name) == nil {
			cmd.Flags().AddFlag(x)
		}
	})
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(api.SelectionStates,
		cobra.ShellCompDirectiveNoFileComp))
	cmd.Args = func(_ *cobra.Command, words []string) error {
		s.Words = words
		if err := s.Check(); err != nil {
			return Usage("%s: %w", cmd.Name(), err)
		}
		return nil
	}
	return s
}

func ParseSelection(words []string, euid func() int) (*api.Selection, error) {
	s := &api.Selection{}
	f := selecting(s, euid)
	if err := f.Parse(words); err != nil {
		return nil, err
	}
	s.Words = f.Args()
	return s, s.Check()
}

func selecting(s *api.Selection, euid func() int) *pflag.FlagSet {
	twice := errors.New("given once, without another that says the same")
	state := func(text string) error {
		if s.State != "" && s.State != text {
			return twice
		}
		s.State = text
		return (&Choice{Words: api.SelectionStates}).Set(text)
	}
	of := func(uid int, on bool) error {
		if !on || s.UID != nil && *s.UID != uid {
			return twice
		}
		s.UID = &uid
		return nil
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.BoolVar(&s.All, "all", false, "every session")
	f.StringVar(&s.Container, "container", "", "whose root is in the container with this `NAME` or id")
	f.Func(
		"idle",
		"that were idle for this `TIME`: no new process, under 1s of CPU (the policy's idle_cpu), no open or new tool call, and no client seen at a TCP port or unix socket, nested sessions included",
		func(text string) (err error) {
			if s.Idle, err = time.ParseDuration(text); err != nil || s.Idle <= 0 {
				return errors.New(aDuration + ", above 0")
			}
			return nil
		},
	)
	f.BoolFunc(
		"left",
		"whose root is gone; the same as --state leftover",
		func(text string) error { return state(map[string]string{"true": "leftover"}[text]) },
	)
	f.BoolFunc("mine", "of your user", func(text string) error {
		s.Local = s.Local || text == "true"
		return of(euid(), text == "true")
	})
	f.StringVar(&s.Pod, "pod", "", "whose root is in the pod with this `NAME`, or NAMESPACE/NAME")
	f.Func("state", "in this `STATE`: "+strings.Join(api.SelectionStates, ", "), state)
	f.Func("user", "of this `USER`, by name or uid", func(text string) error {
		if u, err := user.Lookup(text); err == nil {
			text, s.Local = u.Uid, true
		}
		uid, err := strconv.Atoi(text)
		if err != nil || uid < 0 {
			return errors.New("a user of this host, or a uid")
		}
		return of(uid, true)
	})
	f.VisitAll(func(x *pflag.Flag) { x.Annotations = map[string][]string{Selects: nil} })
	return f
}
