package api

import (
	"cmp"
	"slices"
	"testing"
)

// Of an agent's shell people see the command of the tool call, as the model gave it. Nothing else changes.
func TestUnwrapped(t *testing.T) {
	const claude = `source /home/u/.claude/shell-snapshots/snapshot-bash-17-x.sh 2>/dev/null || true && \builtin shopt -u extglob 2>/dev/null || true && eval `
	for text, want := range map[string]string{
		claude + `'(setsid node a.js &); echo '\''hi'\'' < /dev/null' < /dev/null && pwd -P >| /tmp/claude-7d93-cwd`: `… (setsid node a.js &); echo 'hi' < /dev/null`,
		claude + `'echo '"'"'a'"'"'' < /dev/null && pwd -P >| /tmp/claude-1-cwd`:                                     `… echo 'a'`,
		claude + `ls < /dev/null && pwd -P >| /tmp/claude-1-cwd`:                                                     `… ls`,
		claude + `'while :; do sle`: `… while :; do sle`, // its end was cut off
		"shopt -u promptvars nullglob; _bgpids_file=/tmp/g/b.tmp\n(\n  trap 'jobs -p > \"$_bgpids_file\"' EXIT\nsleep 1; echo 'x'\n)\n__code=$?\nexit $__code": "… sleep 1; echo 'x'",
		claude[:130]:                "",
		"cd /srv && eval 'make' ok": "",
		"make":                      "",
	} {
		want = cmp.Or(want, text)
		if got := Unwrapped([]string{"bash", "-c", text}); !slices.Equal(got, []string{"bash", "-c", want}) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Unwrapped([]string{"echo", "say", claude + "'x'"}); len(got) != 3 || got[2] != claude+"'x'" {
		t.Errorf("%q", got)
	}
}
