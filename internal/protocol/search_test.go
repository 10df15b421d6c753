package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
)

// Found is what a search of all states came to.
type Found struct {
	States, Moves int
	Idle          int    // states in which no CPU is at a step
	Depth         int    // the longest shortest way to a state
	Broken        string // the sentence that does not hold; "": each holds in each state
	Path          []string
	Cut           bool // there are more states than the search was to visit
}

// search is a breadth-first search. A state that was seen is a hash of 64 bits: that two of n states have the same one
// has a probability of less than n²/2⁶⁵, 0.03 % for 10⁸.
type search struct {
	m      *Config
	table  []uint64 // open addressing; 0: free
	from   paged[uint32]
	by     paged[uint8] // the state before, and the move from it
	at, to *State
	below  frontier
	idle   map[uint64]bool // tidy states, of a search that does not reduce them
	Found
}

// add returns false if the state was there.
func (v *search) add(s *State, from uint32, by uint8) (fresh bool) {
	if v.from.n*4 >= len(v.table)*3 {
		old := v.table
		v.table = make([]uint64, max(1<<12, 2*len(old)))
		for _, h := range old {
			if h != 0 {
				*v.slot(h) = h
			}
		}
	}
	h := max(1, maphash.Bytes(seed, s.mem))
	slot := v.slot(h)
	if *slot == h {
		return false
	}
	*slot = h
	v.from.push(from)
	v.by.push(by)
	v.below.push(s)
	return true
}

func (v *search) slot(h uint64) *uint64 {
	mask := uint64(len(v.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if v.table[i] == 0 || v.table[i] == h {
			return &v.table[i]
		}
	}
}

// Search visits every state that a run can reach, shortest ways first, and at most the number given. It ends
// at the first sentence that does not hold.
func (m *Config) Search(most int) Found {
	v := search{m: m, at: m.newState(), to: m.newState(), idle: map[uint64]bool{}}
	v.add(m.Begin(), 0, 0)
	for n := uint32(0); int(n) < v.from.n; v.Depth++ {
		level := v.below
		v.below = frontier{}
		for ; level.next(v.at); n++ {
			v.expand(n)
			if v.States = v.from.n; v.Broken != "" || v.States >= most {
				v.Cut = v.Broken == ""
				return v.Found
			}
		}
	}
	return v.Found
}

// expand takes each move from a state, the n-th.
func (v *search) expand(n uint32) {
	moving, move := false, uint8(0)
	v.m.next(v.at, v.to, func(mv Move, bad string) {
		if v.Broken != "" {
			return
		}
		v.Moves++
		v.m.reduce(v.to, nil)
		moving = moving || mv.fair() && !bytes.Equal(v.to.mem, v.at.mem)
		if v.add(v.to, n, move) && bad == "" {
			bad = v.m.always(v.to)
		}
		if bad != "" {
			v.Broken, v.Path = bad, append(v.path(n), v.m.tell(mv, v.at))
		}
		move++
	})
	if v.at.idle() {
		v.Idle++
		if v.m.Single {
			copy(v.to.mem, v.at.mem)
			v.m.tidy(v.to)
			v.idle[maphash.Bytes(seed, v.to.mem)] = true
			v.Idle = len(v.idle)
		}
	}
	if v.Broken == "" && !moving {
		if bad := v.m.quiet(v.at); bad != "" {
			v.Broken, v.Path = bad, v.path(n)
		}
	}
}

const page = 1 << 16

// paged is an array that grows without a copy.
type paged[T any] struct {
	pages [][]T
	n     int
}

func (p *paged[T]) push(x T) {
	if p.n%page == 0 {
		p.pages = append(p.pages, make([]T, page))
	}
	p.pages[p.n/page][p.n%page] = x
	p.n++
}

func (p *paged[T]) at(i uint32) T { return p.pages[i/page][i%page] }

// frontier holds the states of one depth: of each eight bytes, a bit for each that is not 0, and those.
type frontier struct {
	pages [][]byte
	read  int
}

func (f *frontier) push(s *State) {
	last := len(f.pages) - 1
	if last < 0 || cap(f.pages[last])-len(f.pages[last]) < 2*len(s.mem) {
		f.pages = append(f.pages, make([]byte, 0, page))
		last++
	}
	p := f.pages[last]
	for i := 0; i < len(s.mem); i += 8 {
		at := len(p)
		p = append(p, 0)
		for w, b := binary.LittleEndian.Uint64(s.mem[i:]), 0; w != 0; w, b = w>>8, b+1 {
			if x := byte(w); x != 0 {
				p[at] |= 1 << b
				p = append(p, x)
			}
		}
	}
	f.pages[last] = p
}

// next takes the next state out. False: it is empty.
func (f *frontier) next(s *State) bool {
	if len(f.pages) > 0 && f.read == len(f.pages[0]) {
		f.pages, f.read = f.pages[1:], 0
	}
	if len(f.pages) == 0 {
		return false
	}
	p := f.pages[0]
	clear(s.mem)
	for i := 0; i < len(s.mem); i += 8 {
		set := p[f.read]
		f.read++
		for ; set != 0; set &= set - 1 {
			s.mem[i+bits.TrailingZeros8(set)] = p[f.read]
			f.read++
		}
	}
	return true
}

// path replays the way to a state, and tells it.
func (v *search) path(n uint32) (lines []string) {
	var by []uint8
	for ; n != 0; n = v.from.at(n) {
		by = append(by, v.by.at(n))
	}
	s, to, after := v.m.Begin(), v.m.newState(), v.m.newState()
	for i := len(by) - 1; i >= 0; i-- {
		move := uint8(0)
		v.m.next(s, to, func(mv Move, _ string) {
			if move == by[i] {
				lines = append(lines, v.m.tell(mv, s))
				v.m.reduce(to, func(mv Move) { lines = append(lines, v.m.tell(mv, to)) })
				copy(after.mem, to.mem)
			}
			move++
		})
		s, after = after, s
	}
	return lines
}

func (m *Config) tell(v Move, s *State) string {
	c := &s.cpus[v.cpu]
	who := fmt.Sprintf("task %d", v.cpu)
	switch v.cpu {
	case daemon:
		who = "daemon"
	case s.host():
		who = "host"
	}
	side := ""
	if s.sides[1].w.attached && s.sides[0].w.attached {
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
		return fmt.Sprintf("%-8s %v: task %d with PID %d", who, v.action, s.w.born, v.arg)
	case create, keep, protect, suspend, wake, heed:
		return fmt.Sprintf("%-8s %v task %d", who, v.action, v.arg)
	case end, endPatient, dissolve, settle, release, expire, pause, resume:
		return fmt.Sprintf("%-8s %v of session %d", who, v.action, v.arg)
	}
	return fmt.Sprintf("%-8s %v", who, v.action)
}
