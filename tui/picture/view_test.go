package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// checkView tests the view's invariants.
func checkView(t interface{ Fatalf(string, ...any) }, v *View) {
	var rows []*Row
	for r := v.First(); r != nil; r = v.Next(r) {
		rows = append(rows, r)
		if len(rows) > 10000 {
			t.Fatalf("the rows do not end")
		}
	}
	if len(rows) == 0 {
		if v.sel != nil {
			t.Fatalf("%s is selected and not shown", label(v.sel))
		}
		return
	}
	if v.Last() != rows[len(rows)-1] {
		t.Fatalf("the last row is %s, and %s", label(rows[len(rows)-1]), label(v.Last()))
	}
	for i, r := range rows {
		prev := v.Prev(r)
		if v.Picture.filter != nil && r.hits == 0 {
			t.Fatalf("the filter wants nothing at and below %s", label(r))
		}
		if i == 0 && prev != nil || i > 0 && prev != rows[i-1] {
			t.Fatalf("before %s is not what %s is after", label(r), label(r))
		}
	}
	w := v.Window()
	if v.sel == nil || v.line >= len(w) || w[v.line] != v.sel || len(w) > v.height {
		t.Fatalf("line %d of %d is not the selected one", v.line, len(w))
	}
	if i := slices.Index(rows, w[0]); !slices.Equal(rows[i:i+len(w)], w) {
		t.Fatalf("the window is not a part of the rows")
	}
}

func act(t *rapid.T, v *View) {
	switch rapid.IntRange(0, 15).Draw(t, "key") {
	case 13:
		v.HideExited(rapid.Bool().Draw(t, "hide"))
	case 14:
		v.FoldSessions()
	case 15:
		v.SetOrder(Sort(rapid.IntRange(0, int(sorts)-1).Draw(t, "by")))
		v.Resort()
	case 0, 1:
		v.Move(rapid.IntRange(-4, 4).Draw(t, "by"))
	case 2:
		v.Page(rapid.Bool().Draw(t, "down"))
	case 3:
		v.Home()
	case 4:
		v.End()
	case 5:
		if v.sel != nil {
			v.Picture.Fold(v.sel, !v.sel.folded)
			v.restore()
		}
	case 6:
		v.SetFilter(rapid.SampledFrom([]*Filter{nil, words("a"), words("3"), {Selection: &api.Selection{State: "ending"}}}).Draw(t, "filter"))
	case 7:
		v.SetFilter(WithText(rapid.SampledFrom([]string{"SH", "3", "nosuch"}).Draw(t, "text")))
	case 8, 9:
		v.ToggleFilter(rapid.SampledFrom([]*Filter{Strays, Calls}).Draw(t, "strays or calls"))
	case 10, 11:
		v.SetHeight(rapid.IntRange(1, 8).Draw(t, "height"))
	}
}

func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, v := newHost(), NewView(New())
		h.rings = rapid.Bool().Draw(t, "rings")
		v.SetHeight(5)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "frame") {
				v.Apply(batch(h.step(t)))
			} else {
				act(t, v)
			}
			check(t, v.Picture)
			checkView(t, v)
		}
	})
}

// The selected row keeps its line while it exists and there are enough rows above it.
func TestAnchor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, v := newHost(), NewView(New())
		v.SetHeight(rapid.IntRange(1, 6).Draw(t, "height"))
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			v.Apply(batch(h.step(t)))
			v.Move(rapid.IntRange(-3, 6).Draw(t, "by"))
		}
		for range rapid.IntRange(1, 10).Draw(t, "frames") {
			sel, line := v.sel, v.line
			v.Apply(batch(h.step(t)))
			if sel == nil || sel.gone {
				continue
			}
			if v.sel != sel {
				t.Fatalf("%s is no longer selected, %s is", label(sel), label(v.sel))
			}
			above := 0
			for r := v.Prev(v.sel); r != nil; r = v.Prev(r) {
				above++
			}
			require.Equal(t, v.line, min(line, above))
		}
	})
}

func words(all ...string) *Filter {
	return &Filter{Text: strings.Join(all, " "), Selection: &api.Selection{Words: all}}
}

// TestFilter: a selected session is shown with its processes; of a word that names a process, only that.
func TestFilter(t *testing.T) {
	p := New()
	p.Apply(batch(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{
		{
			Ref:     at(41, 1),
			Session: "aaa1",
		},
		{Ref: at(43, 3), Session: "aaa1"},
		{Ref: at(42, 2), Session: "bbb2", State: "exited", Orphan: true},
		{Ref: at(44, 4), Session: "ccc3", Calls: []api.Call{{ID: "x"}}, Orphan: true},
		{Ref: at(45, 5), Session: "ccc3", State: "zombie"},
	}, Sessions: []api.Session{{ID: "aaa1", Name: "build", State: "active", UID: 7}, {ID: "bbb2", Name: "43", State: "active", Kept: true}}}))
	p.SetPorts(map[api.Ref][]int{at(41, 1): {80}})
	p.Session("aaa1").Session.Paused = new(time.Now())
	for want, all := range map[string][]*Filter{
		"aaa1 41 43": {words("build"), words("aaa"), words("b*"), {Selection: &api.Selection{State: "paused"}},
			{Selection: &api.Selection{UID: new(7)}}, words("build", "41")},
		"41":         {words("41"), words("41@1"), words(":80"), words(":80/tcp", "41")},
		"bbb2 42 43": {words("43")}, // a name, and a PID
		"bbb2 42":    {words("bbb2"), words("bbb"), {Selection: &api.Selection{State: "kept"}}},
		"44":         {words("44"), Calls},
		"44 45":      {Strays},
		"":           {words("41@2"), words(":81"), words("bui"), words("aa"), {Selection: &api.Selection{Words: []string{"build", "41"}, UID: new(0)}}},
	} {
		for _, f := range all {
			p.SetFilter(f)
			var got []string
			for _, r := range p.sessions {
				if r.match {
					got = append(got, r.Session.ID)
				}
			}
			for _, r := range p.processes {
				if r.match {
					got = append(got, fmt.Sprint(r.Process.PID))
				}
			}
			slices.SortFunc(got, func(a, b string) int { return cmp.Or(len(b)/3-len(a)/3, strings.Compare(a, b)) })
			require.Equal(t, strings.Join(got, " "), want)
		}
	}
}

// Actions of the reader, also a higher window, fill the window if there are enough rows.
func TestWindowIsFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, v := newHost(), NewView(New())
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			v.Apply(batch(h.step(t)))
			v.SetHeight(rapid.IntRange(1, 4).Draw(t, "low"))
			v.End()
			v.SetHeight(rapid.IntRange(5, 12).Draw(t, "high"))
			if w := v.Window(); len(w) > 0 && len(w) < v.height && w[0] != v.First() {
				t.Fatalf("%d of %d lines, and there are rows above", len(w), v.height)
			}
		}
	})
}

// A row that the reader chose keeps its line; when nothing changes for a while the
// window is filled again. Before the reader chose a row, new rows above are shown.
func TestFillsWhenCalm(t *testing.T) {
	v := NewView(New())
	v.SetHeight(5)
	session := func(pid int) *api.Frame {
		root := born(at(pid, pid), nil, "sh")
		return &api.Frame{Head: api.Head{Kind: "diff"}, Sessions: []api.Session{{ID: fmt.Sprint("s", 100+pid), State: "active", Root: &root}}}
	}
	v.Apply(batch(session(9)))
	v.Apply(batch(session(8)))
	require.Equal(t, v.line, 1)
	v.Home()
	v.Apply(batch(session(7)))
	require.Equal(t, v.line, 0)
	for range calmAfter {
		v.Resort()
	}
	require.Equal(t, v.line, 0)
	v.Resort()
	if v.line != 1 || len(v.Window()) != 3 {
		t.Errorf("line %d of %d", v.line, len(v.Window()))
	}
}

// sized is a session of one process with so much memory.
func sized(pid, mib int) *api.Frame {
	root := born(at(pid, pid), nil, "sh")
	root.Session, root.Orphan, root.RSSBytes = fmt.Sprint("s", pid), true, uint64(mib)<<20
	return &api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{root},
		Sessions: []api.Session{{ID: root.Session, State: "active", Root: &root, RSSBytes: root.RSSBytes}}}
}

// A new order shows the top of the ranking, and its top stays in sight
// while the ranking changes: with the selected row if the reader chose that, else with
// the first one.
func TestRankingIsInSight(t *testing.T) {
	v := NewView(New())
	v.SetHeight(5)
	for pid := range 20 {
		v.Apply(batch(sized(10+pid, pid)))
	}
	for range 12 {
		v.Move(1)
	}
	v.SetOrder(ByRSS)
	first := func(want int) {
		t.Helper()
		if w := v.Window(); w[0] != v.First() || w[0].SessionID() != fmt.Sprint("s", want) || w[v.line] != v.sel {
			t.Errorf("the first row is %s, %s is selected, want s%d", label(w[0]), label(v.sel), want)
		}
	}
	first(29)
	for i := range 8 { // each of them overtakes all others
		v.Apply(batch(sized(10+i, 100+i)))
		v.Resort()
		first(10 + i)
	}
	v.Home()
	chosen := v.sel
	for i := range 2 {
		v.Apply(batch(sized(20+i, 200+i)))
		v.Resort()
		first(20 + i)
	}
	require.Equal(t, v.sel, chosen)
}

// Sessions that do not fit are folded at first, and so are those that come later, until
// the reader unfolds all.
func TestFoldedAtFirst(t *testing.T) {
	for height, folded := range map[int]bool{3: true, 20: false} {
		v := NewView(New())
		v.SetHeight(height)
		for pid := range 4 {
			v.Apply(batch(sized(10+pid, 1)))
		}
		v.FoldIfTooMany()
		v.Apply(batch(sized(20, 1)))
		if v.SessionsFolded() != folded {
			t.Errorf("%d lines: folded %t", height, v.SessionsFolded())
		}
		if !folded {
			continue
		}
		v.SetFilter(words("13"))
		if w := v.Window(); len(w) != 2 || w[1].pid != 13 {
			t.Errorf("the filter's match is hidden in a folded session: %d rows", len(w))
		}
		v.SetFilter(nil)
		if !v.SessionsFolded() {
			t.Error("without the filter all are unfolded")
		}
		v.Fold(v.Picture.Session("s11"), false)
		v.Apply(batch(sized(21, 1)))
		if !v.Picture.Session("s21").Folded() || v.Picture.Session("s11").Folded() {
			t.Error("one session was unfolded, and others are, too")
		}
		v.Fold(v.Picture.Session("s11"), true)
		v.FoldSessions()
		v.Apply(batch(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{at(11, 11)}, Closed: []string{"s11"}}))
		for _, pid := range []int{11, 22} {
			if v.Apply(batch(sized(pid, 1))); v.Picture.Session(fmt.Sprint("s", pid)).Folded() {
				t.Errorf("all are unfolded, and s%d, which comes now, is not", pid)
			}
		}
	}
}

// One session alone is never folded at first.
func TestOneSessionIsNotFolded(t *testing.T) {
	v := NewView(New())
	v.Apply(batch(sized(10, 1)))
	v.FoldIfTooMany()
	if v.SessionsFolded() {
		t.Error("it is folded")
	}
}
