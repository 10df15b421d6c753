package html

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Limits of the tree's form.
const (
	treeBytes = 6 << 20 // of all commands
	maxDepth  = 64      // of nested lists: browsers flatten what is deeper than some hundred elements
	maxRows   = 200     // of a list, before parts of it are folded
	fewest    = 4       // equal processes that are folded
	openUpTo  = 120     // processes of a tree that begins unfolded
	fullUpTo  = 2000    // processes of a tree that shows what is usual about each
	oneLine   = 100     // bytes of a command that is not folded
)

// tree is the processes by creator.
type tree struct {
	session  string
	scale    scale
	rootEnd  uint64
	children map[*process][]*process // nil: those without a creator on the page
	limit    int                     // bytes of a command
	shown    int
	anchors  map[*process]int // of what the timeline links to
}

// newTree is the tree of processes in the order of their starts.
func newTree(session string, sorted []*process, s scale, rootEnd uint64) *tree {
	t := &tree{
		session:  session,
		scale:    s,
		rootEnd:  rootEnd,
		children: make(map[*process][]*process),
		limit:    share(treeBytes, len(sorted), func(i int) string { return sorted[i].command }),
		shown:    len(sorted),
		anchors:  make(map[*process]int),
	}
	for _, x := range sorted {
		t.children[x.creator] = append(t.children[x.creator], x)
	}
	return t
}

// row is a line of the tree: a process, several equal ones, or a part of a long list.
type row struct {
	Anchor  int // 0: no link leads here
	Head    string
	Command string
	Tags    []tag
	At      string
	Lasted  string
	End     string
	Class   string // of End: a class of style.css
	Notes   []string
	Equal   []equal // the processes of a row that has several
	Fold    bool
	Open    bool

	tree  *tree
	list  [][]*process // what is below it, those that are equal together
	depth int
}

// equal is one of several equal processes.
type equal struct {
	Anchor int // 0: no link leads here
	Text   string
}

// tag is a word about a process; Class is a class of style.css.
type tag struct{ Class, Text string }

// Rows are the processes without a creator on the page.
func (t *tree) Rows() []row { return t.rows(t.items(t.children[nil]), 0) }

// Rows are those below a row. They are made when they are written, so that a large tree is never
// in memory as rows.
func (r *row) Rows() []row { return r.tree.rows(r.list, r.depth+1) }

func (t *tree) rows(list [][]*process, depth int) []row {
	if len(list) <= maxRows {
		rows := make([]row, len(list))
		for i := range list {
			rows[i] = t.row(list[i], depth)
		}
		return rows
	}
	size := maxRows
	for (len(list)+size-1)/size > maxRows {
		size *= maxRows
	}
	var rows []row
	for from := 0; from < len(list); from += size {
		part := list[from:min(from+size, len(list))]
		n := 0
		for i := range part {
			n += len(part[i])
		}
		first, last := part[0][0], part[len(part)-1][0]
		rows = append(rows, row{
			Head:    fmt.Sprintf("%d … %d", first.PID, last.PID),
			Command: display.Count(n, "process"),
			At:      t.scale.after(first.start()),
			Fold:    true,
			tree:    t,
			list:    part,
			depth:   depth,
		})
	}
	return rows
}

// items are processes, of which those that are equal are together.
func (t *tree) items(list []*process) [][]*process { return display.Alike(list, t.likeness) }

// likeness is what equal processes have in common.
type likeness struct{ command, end, calls, session string }

func (t *tree) likeness(of **process) (likeness, int) {
	x, least := *of, fewest
	if len(t.children[x]) > 0 || x.dropped > 0 || x.unusual() || t.leftover(x) {
		least = 0
	}
	end, _ := x.ending()
	return likeness{x.command, end, x.calls, x.Session}, least
}

// row describes a process, or several equal ones.
func (t *tree) row(like []*process, depth int) row {
	x := like[0]
	r := row{Head: fmt.Sprint(x.PID), Command: clip(x.command, t.limit),
		At: t.scale.after(x.start()), tree: t, depth: depth, Anchor: t.anchors[x]}
	r.End, r.Class = x.ending()
	if n := len(like); n > 1 {
		r.Head, r.Fold = fmt.Sprintf("×%d", n), true
		r.Anchor, r.Equal = 0, make([]equal, n)
		for i, e := range like {
			r.Equal[i] = equal{t.anchors[e],
				fmt.Sprintf("%d  %s  %s", e.PID, t.scale.after(e.start()), t.lasted(e))}
		}
		return r
	}
	r.Lasted = t.lasted(x)
	if t.leftover(x) {
		r.Tags = append(r.Tags, tag{"leftover", "left over"})
	}
	if x.calls != "" {
		r.Tags = append(r.Tags, tag{"call", clip(strings.TrimPrefix(strings.TrimSuffix(x.calls, " (claimed)"),
			"tool call "), maxName)})
	}
	r.Notes = t.notes(x)
	if below := t.children[x]; depth < maxDepth {
		r.list = t.items(below)
	} else if depth == maxDepth {
		r.list = slices.Collect(slices.Chunk(t.below(x), 1))
		r.Notes = append(r.Notes, "All below it in one list: the tree is deeper than can be shown.")
	} else if c := x.creator; c != nil {
		r.Tags = append(r.Tags, tag{"", fmt.Sprintf("by %d", c.PID)})
	}
	r.Fold = len(r.list) > 0 || len(r.Notes) > 0 || len(r.Command) > oneLine
	r.Open = len(r.list) > 0 && (t.shown <= openUpTo || depth == 0)
	return r
}

// below are all processes below one, creators before what they created.
func (t *tree) below(x *process) (all []*process) {
	stack := []*process{x}
	for len(stack) > 0 {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		list := t.children[x]
		all = append(all, list...)
		for i := len(list) - 1; i >= 0; i-- {
			stack = append(stack, list[i])
		}
	}
	return all
}

// notes are what a row says about a process when it is unfolded.
func (t *tree) notes(x *process) (notes []string) {
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, was := range x.earlier {
		say("ran before: %s", clip(was, min(t.limit, oneLine)))
	}
	if x.unusual() && x.Evidence != nil {
		say("evidence: %s", name(display.Evidence(x.Evidence)))
	}
	if x.NSPID != 0 {
		say("PID %d in its namespace", x.NSPID)
	}
	if x.Container != nil {
		say("in container %s", name(x.Container.String()))
	}
	if x.Session != "" && x.Session != t.session {
		say("in session %s", x.Session)
	}
	if x.adopter != 0 {
		say("its creator died; its parent was then %d", x.adopter)
	}
	if x.Trace != nil {
		say("%s", display.Trace(x.Trace))
	}
	if x.outcome != nil && x.outcome.Why != "" {
		say("%s", name(x.outcome.Why))
	}
	if x.dropped > 0 {
		say("%s below it not shown", display.Count(x.dropped, "process"))
	}
	if t.shown > fullUpTo {
		return notes
	}
	if x.Exe != "" {
		say("program %s", x.Exe)
	}
	notes = append(notes, display.Facts(&x.Process)...)
	if x.CPUSeconds > 0 {
		say("CPU %s", display.CPU(x.CPUSeconds))
	}
	if x.RSSBytes > 0 {
		say("peak memory %s", display.Size(x.RSSBytes))
	}
	return notes
}

// unusual reports whether something other than how it ended tells a process from its like.
func (x *process) unusual() bool {
	e := x.Evidence
	return x.NSPID != 0 || x.Container != nil || e != nil && e.Kind != "fork" && e.Kind != "root"
}

// leftover reports whether a process was alive when the root of its session was gone.
func (t *tree) leftover(x *process) bool {
	if x.outcome != nil {
		return x.outcome.Leftover
	}
	return t.rootEnd != 0 && x.start() < t.rootEnd && (x.Exited == nil || x.end() > t.rootEnd)
}

func (t *tree) lasted(x *process) string {
	if x.Exited == nil {
		return ""
	}
	return lasted(x.start(), x.end())
}

// ending says how a process ended, and a class of style.css for it.
func (x *process) ending() (text, kind string) {
	if o := x.outcome; o != nil && o.Outcome != api.OutcomeSelf && o.Outcome != api.OutcomeBranch {
		short := *o
		short.Why = ""
		return display.Outcome(&short), class(o.Outcome)
	}
	if x.Exited == nil {
		return "its end was not seen", "open"
	}
	if x.Signal != "" || x.ExitCode != nil && *x.ExitCode != 0 {
		kind = "bad"
	}
	return x.exited(), kind
}

// exited says how a process ended, as the kernel reported it.
func (x *process) exited() string {
	return name(display.Exited(&x.Process, "", "exit "))
}
