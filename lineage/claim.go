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
	used   atomic.Pointer[Used]
}

// Used is what processes used in their lives: of a call, those whose exits were reported and that no other
// call may have started.
type Used struct {
	Processes int
	CPUTime   uint64 // ns
	MaxRSS    uint64 // bytes, of the largest process
	Comm      Comm   // its name
}

// Same reports whether two copies are of one call.
func (c *Call) Same(x *Call) bool { return c.Agent == x.Agent && c.ID == x.ID && c.Began == x.Began }

// Ended is the boottime of its end; 0: no end is known.
func (c *Call) Ended() uint64 { return c.ended.Load() }

// End notes its end. It may be called while others read the call.
func (c *Call) End(at uint64) { c.ended.Store(at) }

// Used may be called while others change the call.
func (c *Call) Used() (u Used) {
	if p := c.used.Load(); p != nil {
		u = *p
	}
	return u
}

// Add adds what others of its processes used. Only one goroutine may.
func (c *Call) Add(x Used) {
	u := c.Used()
	u.Processes, u.CPUTime = u.Processes+x.Processes, u.CPUTime+x.CPUTime
	if x.MaxRSS >= u.MaxRSS {
		u.MaxRSS, u.Comm = x.MaxRSS, x.Comm
	}
	c.used.Store(&u)
}

// Learn takes what another copy of the call, which was written at another time, knows in addition.
func (c *Call) Learn(x *Call) {
	if x.Ended() != 0 {
		c.End(x.Ended())
	}
	if x.Used().Processes > c.Used().Processes {
		c.used.Store(x.used.Load())
	}
}

// plainCall is a Call on disk.
type plainCall struct {
	ID, Tool     string
	Agent        ID
	Began, Ended uint64
	Number       uint32
	Used         Used `json:",omitzero"`
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c *Call) MarshalJSON() ([]byte, error) {
	return json.Marshal(plainCall{c.ID, c.Tool, c.Agent, c.Began, c.Ended(), c.Number, c.Used()})
}

func (c *Call) UnmarshalJSON(b []byte) error {
	var p plainCall
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	c.ID, c.Tool, c.Agent, c.Began, c.Number = p.ID, p.Tool, p.Agent, p.Began, p.Number
	c.End(p.Ended)
	c.used.Store(&p.Used)
	return nil
}
