package document

import (
	"encoding/hex"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
)

// Call is a tool call as a member reported it.
func Call(k Clock, c *lineage.Call) api.Call {
	return api.Call{ID: c.ID, Tool: c.Tool, Agent: RefOrNil(c.Agent), Began: k.Wall(c.Began), Ended: k.Wall(c.Ended()), Claimed: true}
}

// claims adds to a process what members say of it.
func claims(k Clock, p *api.Process, c *lineage.Claim) {
	if c == nil {
		return
	}
	if t := &c.Trace; *t != (lineage.Trace{}) {
		p.Trace = &api.Trace{
			TraceID: hex.EncodeToString(t.ID[:]), SpanID: hex.EncodeToString(t.Span[:]), Sampled: t.Sampled, From: Ref(t.From), Claimed: true,
		}
	}
	for _, x := range c.Calls {
		p.Calls = append(p.Calls, Call(k, x))
	}
}
