//go:build linux

package stream

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestRecentLines: a line is made once for all callers that may see the same, and not
// again while it is held.
func TestRecentLines(t *testing.T) {
	var lines encodedEvents
	clock := document.Fixed(time.Unix(0, 0))
	root, other := access.Caller{UID: 0}, access.Caller{UID: 1}
	redacted := 0
	group := access.Caller{UID: 2, Group: true, Redact: func([]string) []string { redacted++; return []string{"x", "--hidden"} }}
	r := history.RecentEvent{Seq: 7}
	r.Type, r.UID, r.Image = tracer.EventBirth, 1000, &lineage.Image{Exe: "/bin/x", Argv: []string{"x", "--secret"}}
	get := func(c access.Caller) []byte {
		b, err := lines.line(clock, &r, c)
		require.NoError(t, err)
		return b
	}
	shown, hidden := get(root), get(other)
	if !bytes.Contains(shown, []byte("--secret")) || bytes.Contains(hidden, []byte("--secret")) {
		t.Errorf("root gets %s, another uid %s", shown, hidden)
	}
	first := get(group)
	if !bytes.Contains(first, []byte("--hidden")) || bytes.Contains(first, []byte("--secret")) {
		t.Errorf("the group gets %s", first)
	}
	group.UID = 3
	if again := get(group); &again[0] != &first[0] || redacted != 1 {
		t.Errorf("it was made for the group again, and redacted %d times", redacted)
	}
	if again := get(other); &again[0] != &hidden[0] {
		t.Error("it was made twice for a caller who gets no command line")
	}
	if again := get(root); &again[0] != &shown[0] {
		t.Error("it was made twice")
	}
	if again := get(access.Caller{UID: 1000}); &again[0] != &shown[0] {
		t.Error("it was made twice for its own uid")
	}
	r.Seq += recentLines
	if newer := get(root); bytes.Equal(newer, shown) {
		t.Errorf("%s", newer)
	}
	r.Seq -= recentLines
	if late := get(root); !bytes.Equal(late, shown) {
		t.Errorf("who is behind gets %s", late)
	}
	r.Seq += recentLines
	if newer := get(root); !bytes.Contains(newer, []byte(`"seq":"`+strconv.Itoa(7+recentLines)+`"`)) {
		t.Errorf("%s", newer)
	}
	// What a process was counts if it is not known what it is now.
	r.Seq++
	r.Was, r.WasUID, r.Image, r.Type = r.Image, r.UID, nil, tracer.EventExec
	if text := get(root); !bytes.Contains(text, []byte("--secret")) || bytes.Contains(get(other), []byte("--secret")) {
		t.Errorf("root gets %s, another uid %s", text, get(other))
	}
	r.Image = r.Was
	// Of two users each caller gets what it may see of both.
	r.Seq++
	r.Was, r.WasUID = &lineage.Image{Argv: []string{"su", "--other"}}, 5
	for uid, want := range map[uint32][2]bool{0: {true, true}, 1000: {true, false}, 5: {false, true}, 1: {}} {
		text := get(access.Caller{UID: uid})
		if got := [2]bool{bytes.Contains(text, []byte("--secret")), bytes.Contains(text, []byte("--other"))}; got != want {
			t.Errorf("uid %d gets %s", uid, text)
		}
	}
}
