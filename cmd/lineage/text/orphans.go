package text

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Orphans lists orphans, leftovers, zombies and brokered work.
func Orphans(list *api.Orphans) Listing {
	list.Head = Head("orphans")
	if list.Items == nil {
		list.Items = []api.Orphan{}
	}
	l := Listing{Doc: list, Text: func(p *Page) { writeOrphans(p, list.Items) }}
	for i := range list.Items {
		list.Items[i].Head = api.Head{Kind: "orphan"}
		l.Items = append(l.Items, list.Items[i])
		if b := list.Items[i].Brokered; b == nil || b.Process != nil {
			l.Names = append(l.Names, list.Items[i].Ref.String())
		}
	}
	return l
}

func writeOrphans(p *Page, items []api.Orphan) {
	var t table
	header := []string{"PID", "WHY", "SESSION", "NAME", "RSS", "AGE", "PARENT", "COMMAND"}
	if p.Wide {
		header = append(header, "UID", "CREATOR", "CGROUP")
	}
	t.row(header...)
	for i := range items {
		o := &items[i]
		color := yellow
		if o.Why == api.WhyZombie {
			color = red
		}
		why := o.Why
		if o.Brokered != nil {
			why = brokeredText(o)
		}
		if o.Kept {
			why += ", kept"
		}
		row := []string{o.Ref.String(), why, o.Session, cmp.Or(o.SessionName, "-"), display.Size(o.RSSBytes), p.since(o.Started), parentText(o), p.Command(&o.Process)}
		if !p.Wide {
			row[0] = fmt.Sprint(o.PID)
		}
		if p.Wide {
			uid, creator := "-", "-"
			if o.UID != nil {
				uid = fmt.Sprint(*o.UID)
			}
			if o.Creator != nil {
				creator = fmt.Sprint(o.Creator.PID)
			}
			row = append(row, uid, creator, cmp.Or(o.Cgroup, "-"))
		}
		for i := range row {
			row[i] = display.Text(row[i])
		}
		t.paintedRow([]string{"", color}, row...)
	}
	t.write(p)
}

// brokeredText is why a process that no member forked is listed.
func brokeredText(o *api.Orphan) string {
	b := o.Brokered
	switch {
	case b.Process == nil && b.State == "pending":
		return "brokered, not found yet"
	case b.Process == nil:
		return "brokered, unattributed"
	}
	why := "brokered"
	if o.Why != api.WhyBrokered {
		why = o.Why + ", brokered"
	}
	if e := b.Evidence; e != nil {
		why += fmt.Sprintf(" (%s), %s", e.Source, e.Confidence)
	}
	return why
}

// parentText is the parent now; of a zombie, who has to reap it, and in which
// session that is.
func parentText(o *api.Orphan) string {
	switch {
	case o.Reaper != nil && o.Reaper.Session != "" && o.Reaper.Session != o.Session:
		return strings.TrimSpace(fmt.Sprintf("%d %s", o.Reaper.PID, o.Reaper.Comm)) + " of " + o.Reaper.Session
	case o.Reaper != nil:
		return strings.TrimSpace(fmt.Sprintf("%d %s", o.Reaper.PID, o.Reaper.Comm))
	case o.Parent != nil:
		return fmt.Sprint(o.Parent.PID)
	}
	return "-"
}
