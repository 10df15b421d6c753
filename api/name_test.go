package api

import (
	"strings"
	"testing"
)

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
