package lineage

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// FuzzApply reads the input as events and snapshots of few processes, with identities,
// creators and times chosen freely, and audits the graph at the end.
func FuzzApply(f *testing.F) {
	f.Add([]byte{0, 3, 2, 1, 9, 0, 4, 3, 3, 10, 2, 3, 0, 0, 11, 5, 4, 3, 0, 12})
	f.Add([]byte{0, 0x13, 0x14, 1, 1, 0, 0x14, 0x13, 1, 1, 1, 0x13, 0, 9, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		g := New(Options{History: 8, Text: 1 << 16})
		who := func(b byte) ID { return ID{uint32(b & 7), uint64(b >> 4)} }
		for ; len(data) >= 5; data = data[5:] {
			a, b, c, at := who(data[1]), who(data[2]), data[3], uint64(data[4])
			switch kind := data[0] % 8; kind {
			case 6:
				g.Resync(at, []Seen{
					{ID: a, Creator: b, Parent: b, Session: SessionID(c % 3), Evidence: Evidence(c >> 4), Dead: c&8 > 0, Zombie: c&8 > 0},
					{ID: b, Creator: a, Session: 1, Evidence: Fork},
				})
			case 7:
				g.Forget(SessionID(c % 3))
			default:
				g.Apply(&Event{Type: EventType(kind), Time: at, ID: a, Creator: b, Parent: b, From: a,
					Session: SessionID(c % 3), Evidence: Evidence((c >> 4) % 5), Looks: called(string(data[:c%4])), Exe: data[:c%5], Argv: data[:c%5]})
			}
			g.Ancestry(a)
			g.Tree(c > 100, 1, 2)
		}
		require.NoError(t, audit(g))
	})
}
