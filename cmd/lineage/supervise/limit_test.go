//go:build linux

package supervise

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestAsTimeout: durations, signals and their names are those of timeout(1) of this host.
func TestAsTimeout(t *testing.T) {
	dir := t.TempDir()
	theirs := func(args ...string) (said string, taken bool) {
		cmd := exec.Command("timeout", args...)
		cmd.Dir, cmd.Env = dir, append(cmd.Environ(), "LC_ALL=C") // dir: for what dumps core
		out, err := cmd.CombinedOutput()
		return string(out), !strings.HasPrefix(fmt.Sprint(err), "exit status 125")
	}
	version, _ := theirs("--version")
	require.Contains(t, version, "coreutils")
	for _, text := range strings.Split("1|.5|1.|0x1|0X1.8p1m|0x1d|0x1dd|0x1p0d|0x1Dh|+0x1|0x1e1|1e0|inf|infinity|infs|infd| 1|\t\n1s|1e5000|9223372036854775808d|"+
		"|.|s| |1 |1s |- 1|-1| -1|+-1|0x-1|0x|0xs|0x.|0xp1|0x1p|0x1ps|0x1_0|1_000|1e|1e+|1sm|1ss|1S|1ms|1,5|0b1|0o1|nan|nan(1)|infinit|\u0661", "|") {
		var s Seconds
		_, taken := theirs("--", text, "true")
		if err := s.Set(text); (err == nil) != taken {
			t.Errorf("%q: %v, timeout(1) takes it: %t", text, err, taken)
		}
	}
	words := strings.Split("EXIT|RTMIN|RTMIN+15|RTMIN+16|RTMAX-1|RTMAX-30|rtmin+1|SIGRTMIN+2|SIGKILL|SIG9|IOT|CLD|POLL|IO|PWR|SYS|09|130|137|"+
		"RTMIN+31|RTMAX+1|RTMIN-1|RTMIN+|RTMIN+x|RTMIN++1|RTMAX-31|RTMAX-40|RTMIN-10|+9| 9|0x9|1x|-1|127|255| INT|SIGSIGINT|SIG130|STKFLT1|RTMIN5|", "|")
	for n := range 66 {
		words = append(words, fmt.Sprint(n))
	}
	for _, word := range words {
		var s Signal
		out, taken := theirs("--foreground", "-v", "-k", ".02", "-s", word, ".000000001", "sleep", "9") // alone: it would stop itself
		said := ""
		if err := s.Set(word); err == nil {
			said = "timeout: sending signal " + s.String() + " to"
		}
		if (said != "") != taken || !strings.HasPrefix(out, said) {
			t.Errorf("%q: %q, %v, timeout(1): %s", word, said, s, out)
		}
	}
}
