package display

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

func TestKept(t *testing.T) {
	until := time.Date(2026, 11, 21, 18, 0, 0, 0, time.Local)
	for want, s := range map[string]api.Session{
		"":     {Reason: "x"},
		"kept": {Kept: true},
		`kept until 2026-11-21 18:00 by uid 1000 (ba\x1bsh): a cache`: {Kept: true, Until: &until, KeptBy: &api.Caller{UID: 1000, Comm: "ba\x1bsh"}, Reason: "a cache"},
		"kept until 2026-11-21 18:00 by rule cache: a cache":          {Kept: true, Until: &until, KeepRule: "cache", Reason: "a cache"},
	} {
		require.Equal(t, Kept(&s), want)
	}
}
