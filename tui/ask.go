package tui

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/panes"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// How often a request is repeated.
const (
	whyEvery   = 5 * time.Second // ports and locks change
	portsEvery = 5 * time.Second
	treeEvery  = time.Minute // processes that exit meanwhile stay in the picture for 30s
	callsEvery = 5 * time.Second
)

// mostForCalls limits the processes of a session that is read to know whether its calls
// have ended: the picture has no news of exited processes.
const mostForCalls = 2000

// asked is what is known beyond the picture, and which requests are open. There is one
// of each kind at a time: while a key is held down over 1,000 rows, only the row where
// it stops is requested.
type asked struct {
	why  panes.DetailAnswer
	open struct{ why, ports, tree bool }
	at   struct{ why, ports time.Time }
}

type answer func()

// ask requests what is shown but not known, or outdated.
func (m *model) ask() tea.Cmd {
	if m.link.client == nil || m.link.away != nil {
		return nil
	}
	return tea.Batch(m.askWhy(), m.askPorts(), m.askTree())
}

// askWhy requests what the details need for the selected process.
func (m *model) askWhy() tea.Cmd {
	r, a, now := m.view.Selected(), &m.asked, m.opts.Now()
	if r == nil || r.Kind != picture.ProcessRow || m.focus != onDetails && m.layout().detail == 0 {
		return nil
	}
	ref := r.Process.Ref
	if a.open.why || a.why.Ref == ref && now.Sub(a.at.why) < whyEvery {
		return nil
	}
	if a.why.Ref != ref {
		a.why = panes.DetailAnswer{Ref: ref}
	}
	a.open.why, a.at.why = true, now
	ctx, c := m.ctx, m.link.client
	return func() tea.Msg {
		w, err := c.Why(ctx, ref.String())
		return answer(func() {
			a.open.why = false
			if ref == a.why.Ref {
				a.why = panes.DetailAnswer{Ref: ref, Why: w, Err: err}
			}
		})
	}
}

// askPorts asks which process listens on which port, if any session has one.
func (m *model) askPorts() tea.Cmd {
	a, now := &m.asked, m.opts.Now()
	if a.open.ports || now.Sub(a.at.ports) < portsEvery {
		return nil
	}
	some := false
	m.view.Picture.AllSessions(func(r *picture.Row) { some = some || len(r.Session.Ports) > 0 })
	if !some && !m.view.Picture.Listening() {
		return nil
	}
	a.open.ports, a.at.ports = true, now
	ctx, c := m.ctx, m.link.client
	return func() tea.Msg {
		l, err := c.Leaks(ctx)
		return answer(func() {
			a.open.ports = false
			if err == nil { // else keep what is known until the next answer
				m.view.SetPorts(portsOf(l))
			}
		})
	}
}

func portsOf(l *api.Leaks) map[api.Ref][]int {
	ports := map[api.Ref][]int{}
	for i := range l.Items {
		for _, port := range l.Items[i].Ports {
			ref := api.Ref{PID: port.PID, StartNS: port.StartNS}
			if port.Port != 0 && port.PID != 0 && !slices.Contains(ports[ref], port.Port) {
				ports[ref] = append(ports[ref], port.Port)
			}
		}
	}
	for _, all := range ports {
		slices.Sort(all)
	}
	return ports
}

func (m *model) askTree() tea.Cmd {
	t, now := m.timeline, m.opts.Now()
	every := treeEvery
	if t != nil && t.Open(mostForCalls) {
		every = callsEvery
	}
	if t == nil || m.asked.open.tree || now.Sub(t.Asked) < every {
		return nil
	}
	m.asked.open.tree, t.Asked = true, now
	ctx, c, session := m.ctx, m.link.client, t.Session
	return func() tea.Msg {
		tree, err := c.Tree(ctx, session, "all")
		return answer(func() {
			m.asked.open.tree = false
			if t := m.timeline; t != nil && t.Session == session {
				if t.Err = err; err == nil {
					t.Remember(tree)
					m.updateTimeline()
				}
			}
		})
	}
}
