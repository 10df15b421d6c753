//go:build linux

package holdings

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// What could not be read is one note, and none of PID 1 if a holder was found.
func TestUnread(t *testing.T) {
	for _, c := range []struct {
		name  string
		found bool
		looks []error
		want  []string
	}{
		{"nothing", false, []error{nil, nil}, nil},
		{"PID 1, twice", false, []error{hiddenError{1}, hiddenError{1}}, []string{"open files of PID 1 could not be read"}},
		{"PID 1, and a holder", true, []error{hiddenError{1}, hiddenError{1}}, nil},
		{"others, and a holder", true, []error{hiddenError{1, 7}, hiddenError{9, 7, 1}}, []string{"open files of PID 7, PID 9 could not be read"}},
		{"many", false, []error{hiddenError{1, 2, 3, 4, 5, 6, 7, 8, 9}}, []string{"open files of 9 processes could not be read"}},
		{"no time", true, []error{errTime, hiddenError{1}}, []string{"holders: " + errTime.Error()}},
	} {
		var h Held
		for i := range c.looks {
			c.looks[i] = about("holders", c.looks[i])
		}
		h.unread(c.found, c.looks...)
		if !slices.Equal(h.Unknown, c.want) {
			t.Errorf("%s: %q, want %q", c.name, h.Unknown, c.want)
		}
	}
}

// Of locks beyond what is read of /proc/locks it is not said that they are released.
func TestTooManyLocks(t *testing.T) {
	h, line := newFixture(t), "1: FLOCK  ADVISORY  WRITE 9609 fe:00:10027045 0 EOF\n"
	h.reader = NewReader(t.TempDir(), nil)
	require.NoError(t, os.WriteFile(filepath.Join(h.reader.Root, "locks"), bytes.Repeat([]byte(line), maxTable/len(line)+1), 0o600))
	a := h.look(Held{Locks: []Lock{{Kind: "flock", Path: "/a", key: "flock write 1 fe:00:1 0-EOF"}}}, "", nil, tracer.Identity{}, time.Minute)
	if len(a.released)+len(a.still) != 0 || !slices.Equal(a.unknown, []string{"locks: " + errMany.Error()}) {
		t.Errorf("%+v", a)
	}
}

// A port without a holder may be one of PID 1.
func TestAllHeld(t *testing.T) {
	one, none := Port{Holder: tracer.Identity{PID: 7, Start: 1}}, Port{}
	for ports, want := range map[*[]Port]bool{{}: false, {one}: true, {one, none}: false} {
		if got := allHeld(*ports); got != want {
			t.Errorf("%v: %t", *ports, got)
		}
	}
}
