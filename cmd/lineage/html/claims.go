package html

import (
	"cmp"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// callKey is a tool call, as its agent names it.
type callKey struct {
	agent api.Ref
	id    string
}

type call struct {
	key       callKey
	tool      string
	began     uint64 // ns
	ended     uint64 // ns; 0: its end was not reported
	used      string // by then
	processes int    // that may belong to it
}

func (p *Page) call(at uint64, ev *api.Event) {
	key := keyOf(ev.Call)
	c := p.byID[key]
	running := c != nil && c.ended == 0
	switch {
	case ev.Call.Ended != nil && running:
		c.ended, c.used = max(at, c.began), strings.TrimPrefix(display.Used(ev.Call), ": ")
	case ev.Call.Ended != nil || running: // its beginning was not seen, or it begins again
	case len(p.calls) == maxCalls:
		p.more.calls++
	default:
		c = &call{key: key, tool: cmp.Or(name(ev.Call.Tool), "tool call"), began: at}
		p.calls = append(p.calls, c)
		p.byID[key] = c
	}
}

func keyOf(c *api.Call) callKey {
	key := callKey{id: clip(c.ID, maxName)}
	if c.Agent != nil {
		key.agent = *c.Agent
	}
	return key
}

// port is a socket on which a member listened.
type port struct {
	portKey
	runs  string // what the member ran
	from  uint64 // ns
	until uint64 // ns; 0: not known
}

type portKey struct {
	ref  api.Ref
	name string
}

// port notes that a member listens, or no longer.
func (p *Page) port(at uint64, ev *api.Event) {
	key := portKey{ev.Process.Ref, clip(display.Port(ev.Port), maxName)}
	o := p.listens[key]
	switch {
	case ev.Type == api.EventUnlisten:
		if o != nil {
			o.until = max(at, o.from)
			delete(p.listens, key)
		}
	case o != nil: // it is known
	case len(p.ports) == maxPorts:
		p.more.ports++
	default:
		o = &port{portKey: key, from: at, runs: p.members.show(ev.Process)}
		p.ports = append(p.ports, o)
		p.listens[key] = o
	}
}
