package lineage

import (
	"bytes"
	"fmt"
	"testing"
)

// TestCommandsOfTheLiving: live processes cannot be forgotten. A user who fills the memory with
// their command lines gets only the beginnings of more, and others keep theirs.
func TestCommandsOfTheLiving(t *testing.T) {
	const text = 1 << 20
	g := New(Options{Text: text})
	apply(g, []Event{root(10, 9, 1, 100)})
	run := func(pid, uid uint32, argv []byte) Node {
		at := uint64(pid) * 10
		e := execs(pid, at+1, "sh", "")
		e.UID, e.Argv = uid, argv
		apply(g, []Event{fork(pid, 10, at), e})
		n, _ := g.Node(e.ID)
		return n
	}
	empty := func(pid uint32) []byte { return append(fmt.Append(nil, pid), bytes.Repeat([]byte{0}, 4000)...) }
	var last Node
	for pid := uint32(1000); pid < 1200; pid++ {
		last = run(pid, 1000, empty(pid))
	}
	if !last.ArgvTruncated || len(last.Argv) != 32 || last.Argv[0] != "1199" {
		t.Errorf("of the last: %d arguments, truncated %v", len(last.Argv), last.ArgvTruncated)
	}
	if n := run(2000, 1001, empty(2000)); len(n.Argv) != 4000 || n.ArgvTruncated {
		t.Errorf("of another user: %d arguments, truncated %v", len(n.Argv), n.ArgvTruncated)
	}
	if n := g.images.share.Used(); n > 2*text {
		t.Errorf("%d bytes of text", n)
	}
	for _, n := range []uint32{1000, 1199, 2000} {
		apply(g, []Event{exit(n, 30000), reaped(n, 30001)})
	}
	sound(t, g)
}
