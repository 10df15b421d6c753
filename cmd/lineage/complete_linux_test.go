package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// complete gives what a TAB after args offers, and whether the shell adds files.
func complete(w *world, args ...string) (words []string, fileNames bool) {
	_, out, _ := w.run(append([]string{"__complete"}, args...)...)
	for line := range strings.Lines(out) {
		if directive, last := strings.CutPrefix(line, ":"); last && len(directive) < 4 {
			return words, strings.TrimSpace(directive) == "0"
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		words = append(words, word)
	}
	return words, false
}

func TestCompletes(t *testing.T) {
	for line, want := range map[string]struct {
		words string
		files bool
	}{
		"why ?":                      {"5000 4121 4130 4123 4128", true},
		"why 412?":                   {"4121 4123 4128", true},
		"why :?":                     {":8123 :8200", false},
		"why :81?":                   {":8123", false},
		"why 1 ?":                    {"", false},
		"keep 4121 412?":             {"4123 4128", false},
		"adopt ?":                    {"", false},
		"ls -H ?":                    {"", false},
		"export --signals ?":         {"traces logs", false},
		"export --signals traces,l?": {"traces,logs", false},
		"events --type fork,ex?":     {"fork,exec fork,exit", false},
		"status ?":                   {"", false},
		"policy explain 50?":         {"5000", false},
		"policy check ?":             {"", true},
		"run --report ?":             {"", true},
		"run -- ?":                   {"", true},
		"init -- ?":                  {"", true},
		"daemon --policy ?":          {"", true},
		"history ?":                  {"old e7d7c7", false},
		"help exi?":                  {"exit-codes", false},
		"ls --sort ?":                {"age cpu cpus id live name orphans rss state", false},
		"ls --columns id,or?":        {"id,orphans", false},
		"ls --state ?":               {"active paused leftover kept ending condemned ended", false},
		"events k3?":                 {"k3x9q2", false},
		"end :82?":                   {":8200", false},
	} {
		f := newFake()
		f.Has.Sessions[0].Ports = []int{8123, 8200}
		w := newWorld(t, f)
		w.host.commands = recorded
		args := strings.Fields(line)
		args[len(args)-1] = strings.TrimSuffix(args[len(args)-1], "?")
		words, files := complete(w, args...)
		got := strings.Join(words, " ")
		if want.files != files || !sameWords(got, want.words) {
			t.Errorf("%s: %q, files %t; want %q, %t", line, got, files, want.words, want.files)
		}
	}
}

// Ended sessions are offered as one looks for them: the last one first.
func TestCompletesHistoryByTime(t *testing.T) {
	f := newFake()
	f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: "aaaaaa", Name: "new", State: "ended", Ended: at(-60)},
		api.Session{ID: "bbbbbb", State: "ended", Ended: at(-9999)})
	_, out, _ := newWorld(t, f).run("__complete", "history", "")
	var words []string
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		words = append(words, word)
	}
	want := fmt.Sprintf("new aaaaaa old e7d7c7 bbbbbb :%d", cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
	require.Equal(t, strings.Join(words, " "), want)
}

// sameWords compares without order.
func sameWords(a, b string) bool {
	count := map[string]int{}
	for w := range strings.FieldsSeq(a) {
		count[w]++
	}
	for w := range strings.FieldsSeq(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
