package lineage

import (
	"encoding/json"
	"sync/atomic"
)

// Claim is what a member says about a process and all its descendants. It proves nothing and
// decides nothing. Once the graph has it, only the ends of its calls change.
type Claim struct {
	Trace Trace `json:",omitzero"`
	// Calls are the tool calls that were open when the process was started. It belongs to one of
	// them; if there are several, it is unknown to which.
	Calls []*Call `json:",omitempty"`
}

// Trace is a place in a distributed trace (W3C Trace Context). The zero value: no trace.
type Trace struct {
	ID      [16]byte
	Span    [8]byte
	Sampled bool
	From    ID // the process that said so
}

type Call struct {
	ID     string
	Tool   string
	Agent  ID     // its process
	Began  uint64 // boottime, ns
	Number uint32 // in the kernel's entries, another one for each call; 0: none, before there were numbers
	ended  atomic.Uint64
}

// Same reports whether two copies are of one call.
func (c *Call) Same(x *Call) bool { return c.Agent == x.Agent && c.ID == x.ID && c.Began == x.Began }

// Ended is the boottime of its end; 0: no end is known.
func (c *Call) Ended() uint64 { return c.ended.Load() }

// End notes its end. It may be called while others read the call.
func (c *Call) End(at uint64) { c.ended.Store(at) }

// plainCall is a Call on disk.
type plainCall struct {
	ID, Tool     string
	Agent        ID
	Began, Ended uint64
	Number       uint32
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c *Call) MarshalJSON() ([]byte, error) {
	return json.Marshal(plainCall{c.ID, c.Tool, c.Agent, c.Began, c.Ended(), c.Number})
}

func (c *Call) UnmarshalJSON(b []byte) error {
	var p plainCall
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	c.ID, c.Tool, c.Agent, c.Began, c.Number = p.ID, p.Tool, p.Agent, p.Began, p.Number
	c.End(p.Ended)
	return nil
}
