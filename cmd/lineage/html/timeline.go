package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api/display"
)

// The form of the timeline, in pixels.
const (
	maxLanes  = 100
	fewLanes  = 30 // processes that all have one, however short they lived
	lane      = 20
	laneBytes = 90 // of a label
	loadTop   = 22 // below the axis
	loadHigh  = 56
	loadWide  = 1000 // units of the curve, which is stretched
)

// timeline is a drawing: when the processes and tool calls were there, each on a lane. Places on
// the axis are percents, as text.
type timeline struct {
	Height   int
	Axis     []mark
	Load     string // the path of the curve of live processes
	LoadPeak int
	LoadTop  int
	LoadHigh int
	Marks    []mark
	Gaps     []mark
	Lanes    []laneRow
	Left     int // processes without a lane
}

// mark is a place on the axis, with a word; Class is a class of style.css.
type mark struct {
	X, Text, Class string
	End            bool // the word ends there, because it would leave the drawing
}

// laneRow is a process or a tool call.
type laneRow struct {
	Y, Middle int
	X, Width  string // of the bar
	LateX     string // "": it was no leftover
	LateWidth string
	Label     string
	LabelX    string
	End       bool // the label ends there
	Class     string
	Anchor    int // of its row in the tree; 0: none
}

// draw draws the timeline, and gives anchors to the processes that have a lane.
func (p *Page) draw(t *tree, sorted []*process) timeline {
	v := timeline{LoadTop: loadTop, LoadHigh: loadHigh}
	for i := range 5 {
		at := t.scale.from + uint64(float64(t.scale.until-t.scale.from)*float64(i)/4)
		text := t.scale.after(at)
		if t.scale.until-t.scale.from >= uint64(time.Minute) {
			text = display.Age(time.Duration(at - t.scale.from))
		}
		v.Axis = append(v.Axis, mark{X: fmt.Sprint(25 * i), Text: text, End: i == 4})
	}
	v.LoadPeak, v.Load = load(t.scale, sorted)
	for _, s := range p.steps {
		x := t.scale.percent(s.at)
		m := mark{X: fmt.Sprintf("%.2f", x), Text: s.text, Class: s.kind}
		if s.kind == "gap" {
			v.Gaps = append(v.Gaps, m)
		} else if s.kind != "active" && s.kind != "ended" {
			v.Marks = append(v.Marks, m)
		}
	}
	v.Height = loadTop + loadHigh + 10
	for _, c := range p.calls[:min(len(p.calls), maxLanes/2)] {
		v.add(t.scale, c.began, cmp.Or(c.ended, t.scale.until), display.Text(c.tool+" "+c.key.id), "tool")
	}
	shown := longest(t, sorted)
	v.Left = len(sorted) - len(shown)
	for i, x := range shown {
		t.anchors[x] = i + 1
		until := cmp.Or(x.end(), t.scale.until)
		_, class := x.ending()
		l := v.add(t.scale, x.start(), until, fmt.Sprintf("%d %s", x.PID, x.command), class)
		l.Anchor = i + 1
		if t.leftover(x) && t.rootEnd != 0 && x.start() < t.rootEnd {
			l.LateX, l.LateWidth = t.scale.bar(t.rootEnd, until)
		}
	}
	return v
}

// add adds a lane. The label of a late one ends before its bar.
func (v *timeline) add(s scale, from, until uint64, label, class string) *laneRow {
	l := laneRow{Y: v.Height, Middle: v.Height + lane - 7, Label: clip(label, laneBytes), Class: class}
	l.X, l.Width = s.bar(from, until)
	l.LabelX = l.X
	l.End = s.percent(from) > 60
	v.Height += lane
	v.Lanes = append(v.Lanes, l)
	return &v.Lanes[len(v.Lanes)-1]
}

// longest are the processes that have a lane, in the order of their starts: leftovers, those that
// were alive when the end began, and those that lived longest, of many not those that lived only
// for a moment.
func longest(t *tree, sorted []*process) []*process {
	shown := slices.Clone(sorted)
	if len(shown) > fewLanes {
		least := (t.scale.until - t.scale.from) / 200
		shown = slices.DeleteFunc(shown, func(x *process) bool { return t.weight(x) < least })
		slices.SortStableFunc(shown, func(a, b *process) int { return cmp.Compare(t.weight(b), t.weight(a)) })
		shown = shown[:min(len(shown), maxLanes)]
	}
	slices.SortFunc(shown, func(a, b *process) int { return a.Compare(b.Ref) })
	return shown
}

// weight is how much a process deserves a lane.
func (t *tree) weight(x *process) uint64 {
	w := max(cmp.Or(x.end(), t.scale.until), x.start()) - x.start()
	if t.leftover(x) || x.outcome != nil {
		w |= 1 << 63
	}
	return w
}

// load draws how many processes were alive, over time, as an area of SVG.
func load(s scale, sorted []*process) (peak int, path string) {
	type change struct {
		at   uint64
		live int
	}
	var all []change
	for _, x := range sorted {
		if all = append(all, change{x.start(), 1}); x.Exited != nil {
			all = append(all, change{x.end(), -1})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for i := range all {
		if i > 0 {
			all[i].live += all[i-1].live
		}
		peak = max(peak, all[i].live)
	}
	if peak == 0 {
		return 0, ""
	}
	var b strings.Builder
	x := func(c change) int { return int(s.percent(c.at) / 100 * loadWide) }
	y := func(live int) float64 { return float64(loadHigh) * (1 - float64(live)/float64(peak)) }
	fmt.Fprintf(&b, "M0 %d", loadHigh)
	top := 0 // of a column
	for i, c := range all {
		if top = max(top, c.live); i+1 == len(all) || x(all[i+1]) > x(c) {
			fmt.Fprintf(&b, "H%dV%.1fV%.1f", x(c), y(top), y(c.live))
			top = 0
		}
	}
	fmt.Fprintf(&b, "H%dV%dZ", loadWide, loadHigh)
	return peak, b.String()
}
