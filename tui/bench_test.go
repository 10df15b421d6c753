package tui

import (
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// crowd is a session of n processes: one in ten has children, the last tenth of
// them has exited, in groups and alone.
func crowd(n int) *api.Frame {
	f := &api.Frame{Head: api.Head{Kind: "snapshot"}, TimeNS: 4200e9, Sessions: []api.Session{build()}, Status: &api.WatchStatus{Level: 4, Mode: "enforce"}}
	for i := range n {
		creator := 1
		if i >= 10 {
			creator = 1 + i/10
		}
		p := live(i+1, creator, creator, "/usr/bin/worker", "--id", fmt.Sprint(i), "--config", "/etc/worker/config.yaml")
		switch {
		case i == 0:
			p.Creator = nil
		case i > n*9/10 && i%2 == 0:
			p = exited(i+1, creator, 0, "/bin/true")
		}
		f.Upsert = append(f.Upsert, p)
	}
	return f
}

var crowds = []int{1000, 10_000, 100_000}

func benchScreen(b *testing.B, n int) *screen {
	s := newScreen(b, newFake(), Options{Theme: "auto"}, 200, 60)
	s.frames(crowd(n))
	for range 300 {
		s.press("j")
	}
	return s
}

// BenchmarkKey is one key and the frame that it causes.
func BenchmarkKey(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := benchScreen(b, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Update(stroke([]string{"j", "k", "pgdown", "pgup"}[i%4]))
				s.draw()
			}
		})
	}
}

// BenchmarkFrame is 200 births and 200 exits, as with each picture at 2,000 forks/s,
// and the frame that they cause.
func BenchmarkFrame(b *testing.B) {
	for _, mode := range []string{"tree", "filter"} {
		for _, n := range crowds {
			b.Run(fmt.Sprintf("%s/%d", mode, n), func(b *testing.B) {
				s := benchScreen(b, n)
				if mode == "filter" {
					s.press("f s* enter")
				}
				frames := make([]*api.Frame, 64)
				for i := range frames {
					frames[i] = storm(n, i)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					f := picture.NewFeed(nil)
					f.Add(frames[i%len(frames)])
					msg, _ := f.Take()
					s.Update(msg)
					s.draw()
				}
			})
		}
	}
}

// storm is the i-th frame of a storm: processes born in it exit in the next one and are
// removed three later.
func storm(n, i int) *api.Frame {
	f := &api.Frame{Head: api.Head{Kind: "diff"}}
	pid := func(round, k int) int { return n + 1000 + (round+64)%64*200 + k }
	for k := range 200 {
		creator := 1 + k%50
		f.Upsert = append(f.Upsert, live(pid(i, k), creator, creator, "sh", "-c", "true"), exited(pid(i-1, k), creator, 0, "sh", "-c", "true"))
		f.Remove = append(f.Remove, ref(pid(i-4, k)))
	}
	return f
}
