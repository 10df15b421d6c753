package api

import (
	"regexp"
	"strings"
	"testing"
)

func TestIsSessionWord(t *testing.T) {
	want := regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\z`)
	words := []string{"", strings.Repeat("a", 64), strings.Repeat("a", 65), "fix-42", "a\n", "a/b", "é", "a b"}
	for c := range 256 {
		words = append(words, string([]byte{byte(c)}), string([]byte{'a', byte(c)}))
	}
	for _, s := range words {
		if got := IsSessionWord(s); got != want.MatchString(s) {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestSessionWord(t *testing.T) {
	for comm, want := range map[string]string{
		"node": "node", "python3.12": "python3.12", "tmux: server": "tmux-server", "(sd-pam)": "sd-pam", "kworker/0:1": "kworker-0-1",
		"": "", "---": "", "\xff\x00": "", "é": "", strings.Repeat("a", 99): strings.Repeat("a", 64),
	} {
		got := SessionWord(comm)
		if got != want || got != "" && !IsSessionWord(got) {
			t.Errorf("%q: %q, want %q", comm, got, want)
		}
	}
}
