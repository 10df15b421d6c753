package text

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestNote: many processes that could not be read are a number, not a clause each.
func TestNote(t *testing.T) {
	unknown := []string{"locks: more than 4096"}
	for pid := 3901; pid < 3958; pid++ {
		unknown = append(unknown, fmt.Sprintf("pid %d: the kernel does not answer", pid))
	}
	var out strings.Builder
	p := NewPage(&out, time.Time{})
	p.note(unknown)
	require.NoError(t, p.Flush())
	if got, want := strings.Join(strings.Fields(out.String()),
		" "), "note: locks: more than 4096; 57 processes could not be read, such as PID 3901, 3902, 3903"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
