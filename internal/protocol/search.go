package protocol

import (
	"fmt"
	"hash/maphash"
	"strings"
	"unsafe"
)

// Found is what a search of all states came to.
type Found struct {
	States, Moves int
	Depth         int    // the longest shortest way to a state
	Broken        string // the sentence that does not hold; "": each holds in each state
	Path          []string
	Cut           bool // there are more states than the search was to visit
}

// seen is a set of hashes, with the number of each.
type seen struct {
	table []uint32 // numbers of states, plus 1
	hash  [][2]uint64
	from  []uint32 // the state before, and the move from it
	by    []uint8
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hashOf(s *State) (h [2]uint64) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
	return [2]uint64{maphash.Bytes(seeds[0], bytes), maphash.Bytes(seeds[1], bytes)}
}

// add returns false if the state was there.
func (v *seen) add(s *State, from uint32, by uint8) (fresh bool) {
	if len(v.hash)*2 >= len(v.table) {
		v.grow()
	}
	h := hashOf(s)
	slot := v.slot(h)
	if v.table[slot] != 0 {
		return false
	}
	v.hash, v.from, v.by = append(v.hash, h), append(v.from, from), append(v.by, by)
	v.table[slot] = uint32(len(v.hash))
	return true
}

func (v *seen) slot(h [2]uint64) uint64 {
	mask := uint64(len(v.table) - 1)
	for i := h[0] & mask; ; i = (i + 1) & mask {
		if n := v.table[i]; n == 0 || v.hash[n-1] == h {
			return i
		}
	}
}

func (v *seen) grow() {
	v.table = make([]uint32, max(1<<12, 2*len(v.table)))
	for i, h := range v.hash {
		v.table[v.slot(h)] = uint32(i + 1)
	}
}

// Search visits every state that a run can reach, shortest ways first, and at most the number given. It ends
// at the first sentence that does not hold.
func (m *Config) Search(most int) (f Found) {
	var v seen
	var level, below queue
	first := m.Begin()
	v.add(&first, 0, 0)
	below.push(&first, 0)
	for ; below.n > 0; f.Depth++ {
		level, below = below, queue{pages: level.pages}
		for i := range level.n {
			at, n := level.at(i)
			m.expand(&v, at, n, &below, &f)
			if f.States = len(v.hash); f.Broken != "" || f.States >= most {
				f.Cut = f.Broken == ""
				return f
			}
		}
	}
	return f
}

// expand takes each move from a state, the n-th.
func (m *Config) expand(v *seen, at *State, n uint32, below *queue, f *Found) {
	moving, move := false, uint8(0)
	m.next(at, func(mv Move, to *State, bad string) {
		if f.Broken != "" {
			return
		}
		f.Moves++
		moving = moving || mv.fair() && *to != *at
		if v.add(to, n, move) {
			below.push(to, uint32(len(v.hash)-1))
			if bad == "" {
				bad = m.always(to)
			}
		}
		if bad != "" {
			f.Broken, f.Path = bad, append(m.path(v, n), m.tell(mv, at))
		}
		move++
	})
	if f.Broken == "" && !moving {
		if bad := m.quiet(at); bad != "" {
			f.Broken, f.Path = bad, m.path(v, n)
		}
	}
}

// queue holds the states of one depth, in pages: they are too many to copy when it grows.
type queue struct {
	pages [][]queued
	n     int
}

type queued struct {
	s State
	n uint32
}

const page = 1 << 12

func (q *queue) push(s *State, n uint32) {
	if q.n/page == len(q.pages) {
		q.pages = append(q.pages, make([]queued, page))
	}
	q.pages[q.n/page][q.n%page] = queued{*s, n}
	q.n++
}

func (q *queue) at(i int) (*State, uint32) {
	x := &q.pages[i/page][i%page]
	return &x.s, x.n
}

// path replays the way to a state, and tells it.
func (m *Config) path(v *seen, n uint32) (lines []string) {
	var by []uint8
	for ; n != 0; n = v.from[n] {
		by = append(by, v.by[n])
	}
	s := m.Begin()
	for i := len(by) - 1; i >= 0; i-- {
		move, after := uint8(0), s
		m.next(&s, func(mv Move, to *State, _ string) {
			if move == by[i] {
				lines = append(lines, m.tell(mv, &s))
				after = *to
			}
			move++
		})
		s = after
	}
	return lines
}

// tell says what a move does.
func (m *Config) tell(v Move, s *State) string {
	c := &s.cpus[v.cpu]
	who := fmt.Sprintf("task %d", v.cpu)
	switch v.cpu {
	case daemon:
		who = "daemon"
	case host:
		who = "host"
	}
	side := ""
	if s.sides[1].attached && s.sides[0].attached {
		side = fmt.Sprintf(" (side %d)", c.side)
	}
	switch v.action {
	case step, lose:
		text := steps[c.at].text
		if c.at == passVisit || strings.HasSuffix(text, " a task") {
			text = strings.Replace(text, "a task", fmt.Sprintf("task %d", c.walk), 1)
		}
		if v.action == lose {
			text += ", and its event is lost"
		}
		return fmt.Sprintf("%-8s   %s%s", who, text, side)
	case skip:
		return fmt.Sprintf("%-8s   its program is skipped%s", who, side)
	case fork, outsider:
		return fmt.Sprintf("%-8s %v: task %d with PID %d", who, v.action, s.born, v.arg)
	case create, keep, protect:
		return fmt.Sprintf("%-8s %v task %d", who, v.action, v.arg)
	case end, endPatient, dissolve, settle, release, expire:
		return fmt.Sprintf("%-8s %v of session %d", who, v.action, v.arg)
	}
	return fmt.Sprintf("%-8s %v", who, v.action)
}
