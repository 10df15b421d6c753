package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api/internal/require"
)

// TestCommandTimes: a time whose year has five digits in UTC, or is before year 0, is refused.
func TestCommandTimes(t *testing.T) {
	c := Command{V: 1, ID: NewCommandID(), Verb: VerbEnd, Hosts: []string{"web1"}, All: true, Reason: "test"}
	c.Issued = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c.NotAfter = c.Issued.Add(time.Minute)
	_, err := ParseCommand(c.Text())
	require.NoError(t, err)
	for name, edit := range map[string]*strings.Replacer{
		"issued": strings.NewReplacer("2026-01-02T03:00:00Z", "9999-12-31T23:58:00-01:00", "2026-01-02T03:01:00Z", "9999-12-31T23:59:00-01:00"),
		"early":  strings.NewReplacer("2026-01-02T03:00:00Z", "0000-01-01T00:00:00+01:00", "2026-01-02T03:01:00Z", "0000-01-01T00:01:00+01:00"),
	} {
		if _, err := ParseCommand(edit.Replace(c.Text())); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestCommandKeys: 85 hosts with three keys each have room in one command, with the most sessions.
func TestCommandKeys(t *testing.T) {
	mark := "SHA256:" + strings.Repeat("k", 43)
	c := Command{V: 1, ID: NewCommandID(), Verb: VerbEnd, Hosts: slices.Repeat([]string{mark}, 85*3),
		Sessions: slices.Repeat([]string{"k3x9q2"}, 64), Reason: "test"}
	c.Issued = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c.NotAfter = c.Issued.Add(time.Minute)
	_, err := ParseCommand(c.Text())
	require.NoError(t, err)
}
