package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestParseSelection: what words and flags select, and what they may not.
func TestParseSelection(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "All:false Words:[] State: ; uid -1",
		"web --left n-* --state leftover":       "Words:[web n-*] State:leftover",
		"--mine --user 7 --pod p --idle 1m web": "Words:[web]; Pod:p Idle:1m0s; uid 7",
		"--all web":                             "--all selects every session",
		"a[":                                    "invalid pattern",
		"--left --state kept":                   "given once",
		"--mine --user 8":                       "given once",
		"--mine=false":                          "given once",
		"--left=false":                          "one of active, paused",
		"--user nobody0":                        "a user of this host, or a uid",
		"--idle 0s":                             "above 0",
		"--nope":                                "unknown flag: --nope",
	} {
		s, err := ParseSelection(strings.Fields(text), func() int { return 7 })
		uid := -1
		if s != nil && s.UID != nil {
			uid = *s.UID
		}
		require.Contains(t, fmt.Sprintf("%+v uid %d %v", s, uid, err), strings.Split(want, "; ")...)
	}
}
