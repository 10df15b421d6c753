//go:build linux

package history

import (
	"encoding/json"
	"strings"

	"github.com/lineage-ebpf/lineage/lineage"
)

// shared is what many events of a block have. It is written where it comes first, and then a number refers to
// it: 0 for none, then in their order.
type shared[T comparable] struct {
	all     []T
	numbers map[T]uint64 // of all, to write them
}

// item is x, of which content is the first time.
func (s *shared[T]) item(w *wire, x *T, content func(*T)) {
	if s.numbers == nil {
		s.numbers = make(map[T]uint64)
	}
	var none T
	next := uint64(len(s.all) + 1)
	n := s.numbers[*x]
	if n == 0 && *x != none {
		n = next
	}
	switch n = w.count(n, next); {
	case n == next:
		content(x)
		s.all = append(s.all, *x)
		if !w.reading {
			s.numbers[*x] = n
		}
	case w.reading && n > 0:
		*x = s.all[n-1]
	}
}

func (w *wire) container(x **lineage.Container) {
	w.containers.item(w, x, func(x **lineage.Container) {
		var b []byte
		if c := made(w, x); !w.reading {
			b, _ = json.Marshal(c) // nothing, of a time that JSON does not have
		}
		if text(w, &b); w.reading && b != nil && json.Unmarshal(b, *x) != nil {
			w.fail()
		}
	})
}

func (w *wire) image(x **lineage.Image) {
	w.images.item(w, x, func(x **lineage.Image) {
		i := made(w, x)
		text(w, &i.Comm)
		text(w, &i.Exe)
		w.bits(&i.Truncated)
		var argv string
		if len(i.Argv) > 0 {
			argv = strings.Join(i.Argv, "\x00") + "\x00"
		}
		if text(w, &argv); w.reading && argv != "" {
			i.Argv = strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
		}
	})
}
