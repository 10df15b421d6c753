package panes

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// whenColumns is how wide the time since a process died is: wider than an age, as it is
// marked.
const whenColumns = 8

// Fate is what a dead process has instead of figures. How long ago it died ends where the
// living have their age, and before that is how it ended.
type Fate struct {
	how, when string
	after     int // columns of the screen behind it
}

// Fate is that of a row, in the columns of the set; with room for less than all of it, only
// when it died, or nothing.
func (s Columns) Fate(l *Labels, r *picture.Row, room int) Fate {
	f := Fate{after: 1, how: howEnded(r.Process)}
	if at := r.Process.Exited; at != nil {
		f.when = l.Died + " " + display.Age(l.Now.Sub(*at))
	}
	if i := slices.IndexFunc(s, func(c column) bool { return c.name == "age" }); i >= 0 {
		f.after = max(s[i+1:].Width(), 1)
	}
	if f.Width() > room {
		f.how = ""
	}
	if f.Width() > room {
		return Fate{}
	}
	return f
}

// Width is how many columns of the screen it takes, with a blank at both ends.
func (f Fate) Width() int {
	if f.how+f.when == "" {
		return 0
	}
	n := 1 + whenColumns + f.after
	if f.how != "" {
		n += 1 + ink.Width(f.how)
	}
	return n
}

func (f Fate) Put(line *ink.Line, p ink.Paint) {
	line.Skip(line.Left - f.Width())
	if f.how != "" {
		line.Put(p, " "+f.how)
	}
	line.Skip(min(1, f.Width()))
	line.PutRight(p, f.when, min(whenColumns, f.Width()))
}
