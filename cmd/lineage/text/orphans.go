package text

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func Orphans(list *api.Orphans) *Listing {
	list.Head = api.NewHead("orphans")
	if list.Items == nil {
		list.Items = []api.Orphan{}
	}
	if list.Calls == nil {
		list.Calls = []api.CallLeft{}
	}
	l := tabular(func(p *Page) table { return orphansTable(p, list.Items) })
	l.Doc = list
	l.Also = unreaped(list.Items)
	if len(list.Items) == 0 {
		l.Empty = "no orphan, leftover or zombie"
	}
	for i := range list.Items {
		list.Items[i].Head = api.Head{Kind: "orphan"}
		l.Items = append(l.Items, list.Items[i])
		if b := list.Items[i].Delegated; b == nil || b.Process != nil {
			l.Names = append(l.Names, list.Items[i].Ref.String())
		}
	}
	return l
}

// mostParents is how many parents of zombies are named.
const mostParents = 3

// unreaped says which parents have zombies, and what to do about them; "" without any.
func unreaped(items []api.Orphan) string {
	var parents []*api.Process
	zombies := make(map[api.Ref]int)
	for i := range items {
		if r := items[i].Reaper; r != nil {
			if zombies[r.Ref]++; zombies[r.Ref] == 1 {
				parents = append(parents, r)
			}
		}
	}
	if len(parents) == 0 {
		return ""
	}
	names := display.Some(parents, mostParents, func(r **api.Process) string {
		return fmt.Sprintf("%d %s (%d)", (*r).PID, display.Text((*r).Comm), zombies[(*r).Ref])
	})
	return "zombies go when their parent waits for them: mend, restart or end " +
		strings.Join(names, ", ")
}

// OrphanColumns are the columns of the list of orphans, and HostOrphanColumns of the
// list of orphans outside any session.
var (
	OrphanColumns = []string{"pid", "why", "session", "name", "rss", "age", "parent",
		"uid", "creator", "cgroup", "command"}
	HostOrphanColumns = []string{"pid", "uid", "rss", "age", "holds", "command"}
)

func orphansTable(p *Page, items []api.Orphan) table {
	t := table{drop: []string{"AGE", "NAME", "RSS", "PARENT"}, wide: "UID CREATOR CGROUP"}
	t.row(header(OrphanColumns)...)
	for i := range items {
		o := &items[i]
		color := yellow
		if o.Why == api.WhyZombie {
			color = red
		}
		why := string(o.Why)
		if o.Delegated != nil {
			why = delegatedText(o)
		}
		if o.Kept {
			why += ", kept"
		}
		uid, creator := "-", "-"
		if o.UID != nil {
			uid = fmt.Sprint(*o.UID)
		}
		if o.Creator != nil {
			creator = fmt.Sprint(o.Creator.PID)
		}
		t.paintedRow([]string{"", color}, Ref(p, o.Ref), why, o.Session,
			cmp.Or(o.SessionName, "-"), display.Size(o.RSSBytes), p.since(o.Started),
			parentText(o), uid, creator, cmp.Or(o.Cgroup, "-"), p.Command(&o.Process))
	}
	return t
}

// delegatedText is why a process that no member forked is listed.
func delegatedText(o *api.Orphan) string {
	b := o.Delegated
	switch {
	case b.Process == nil && b.State == "pending":
		return "delegated, not found yet"
	case b.Process == nil:
		return "delegated, unattributed"
	}
	why := "delegated"
	if o.Why != api.WhyDelegated {
		why = string(o.Why) + ", delegated"
	}
	if e := b.Evidence; e != nil {
		why += fmt.Sprintf(" (%s), %s", e.Source, e.Confidence)
	}
	return why
}

// parentText is the current parent; for a zombie, the process that must reap it, with
// its session.
func parentText(o *api.Orphan) string {
	switch {
	case o.Reaper != nil && o.Reaper.Session != "" && o.Reaper.Session != o.Session:
		return strings.TrimSpace(fmt.Sprintf("%d %s", o.Reaper.PID, o.Reaper.Comm)) +
			" of " + o.Reaper.Session
	case o.Reaper != nil:
		return strings.TrimSpace(fmt.Sprintf("%d %s", o.Reaper.PID, o.Reaper.Comm))
	case o.Parent != nil:
		return fmt.Sprint(o.Parent.PID)
	}
	return "-"
}

var EqualColumns = []string{"pid", "equal", "session", "creator", "rss", "idle", "command"}

// Equal lists groups of equal processes by the one that is idle longest. It has no names: an end needs a plan.
func Equal(trees []api.Tree) *Listing {
	all := []api.Equal{}
	l := tabular(func(p *Page) table {
		t := table{drop: []string{"SESSION", "CREATOR"}}
		t.row(header(EqualColumns)...)
		for _, g := range all {
			first, last := g.Processes[0], g.Processes[len(g.Processes)-1]
			t.row(Ref(p, first.Ref), fmt.Sprint(len(g.Processes)), first.Session,
				fmt.Sprint(cmp.Or(g.Creator, &api.Process{}).PID),
				display.Size(g.RSSBytes), p.since(last.Busy)+" to "+p.since(first.Busy), p.Command(first))
		}
		return t
	})
	for i := range trees {
		for _, g := range trees[i].Equal() {
			all, l.Items = append(all, g), append(l.Items, g)
		}
	}
	if l.Doc = documentOf(true, "equal_processes", all); len(all) == 0 {
		l.Empty = "no equal processes"
	}
	return l
}

// HostOrphans is the document of `ls --outside -o json`.
type HostOrphans struct {
	api.Head
	Items   []HostOrphan `json:"items"`
	Unknown []string     `json:"unknown,omitempty"` // what could not be read: there may be more
}

// HostOrphan is a child of PID 1 that is in no session and belongs to no service of the
// host, and what it holds.
type HostOrphan struct {
	api.Process
	Ports      []api.Port `json:"ports,omitempty"`       // that it or a descendant listens on
	DeletedDir string     `json:"deleted_dir,omitempty"` // its working directory, if that was removed
	Terminal   string     `json:"terminal,omitempty"`    // its terminal, if that is gone
}

// Holds reports whether there is anything that the orphan should not hold any more.
func (o *HostOrphan) Holds() bool {
	return len(o.Ports) > 0 || o.DeletedDir != "" || o.Terminal != ""
}

// OutsideOrphans lists orphans of the host that are in no session.
func OutsideOrphans(doc *HostOrphans) *Listing {
	doc.Head = api.NewHead("host_orphans")
	l := &Listing{Doc: doc, Text: func(p *Page) { writeHostOrphans(p, doc) }}
	if len(doc.Items) == 0 {
		l.Empty = "no orphan outside sessions holds a port, a deleted directory or a dead terminal"
	}
	for i := range doc.Items {
		doc.Items[i].Head = api.Head{Kind: "host_orphan"}
		l.add(doc.Items[i], doc.Items[i].Ref.String())
	}
	return l
}

func writeHostOrphans(p *Page, doc *HostOrphans) {
	t := table{drop: []string{"AGE", "RSS", "UID"}}
	t.row(header(HostOrphanColumns)...)
	for i := range doc.Items {
		o := &doc.Items[i]
		uid := "-"
		if o.UID != nil {
			uid = fmt.Sprint(*o.UID)
		}
		holds := display.Holding(o.Ports, nil)
		if o.DeletedDir != "" {
			holds = append(holds, "deleted directory "+o.DeletedDir)
		}
		if o.Terminal != "" {
			holds = append(holds, "dead terminal "+o.Terminal)
		}
		t.row(Ref(p, o.Ref), uid, display.Size(o.RSSBytes), p.since(o.Started),
			strings.Join(holds, ", "), p.Command(&o.Process))
	}
	t.write(p)
	p.note(doc.Unknown)
	if len(doc.Items) > 0 && !p.Wide {
		p.Wrap(0, "To make one a session that can be ended: lineage adopt PID; then lineage end SESSION")
	}
}
