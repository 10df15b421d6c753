//go:build linux

package daemon

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// save asks for a session to be written to the history.
func (o *Registry) save(s *Session) {
	o.unsaved[s.info.ID] = true
	select {
	case o.saving <- struct{}{}:
	default:
	}
}

// memory is what a restarted daemon remembers of a live session that the
// kernel does not hold.
type memory struct {
	// Token is the SHA-256 of the session's token, in hex. The token is 256
	// random bits, so that nothing is won by a slower hash, and whoever can read
	// the file cannot pass for a member.
	Token     string          `json:"token,omitempty"`
	EndedBy   *api.Caller     `json:"ended_by,omitempty"`
	EndCaller *audit.Caller   `json:"end_caller,omitempty"`
	Output    string          `json:"output,omitempty"`
	RootDied  api.U64         `json:"root_died,omitempty"`
	CPUDead   time.Duration   `json:"cpu_dead_ns,omitempty"`
	WouldEnd  []string        `json:"would_end,omitempty"`
	Brokered  brokered        `json:"brokered,omitzero"`
	Kept      *kept           `json:"kept,omitempty"`
	Receipt   enforcer.Booked `json:"receipt"`
}

func (s *Session) memory() memory {
	m := memory{
		EndedBy: s.endedBy, EndCaller: s.endCaller, Output: s.output, RootDied: api.U64(s.rootDied), CPUDead: s.cpuDead,
		WouldEnd: s.wouldEnd, Brokered: s.brokered.clone(), Kept: s.kept, Receipt: s.receipt.Booked(),
	}
	if s.token != [32]byte{} {
		m.Token = hex.EncodeToString(s.token[:])
	}
	return m
}

// remember takes up what the daemon before us knew.
func (s *Session) remember(m *memory) {
	if b, err := hex.DecodeString(m.Token); err == nil && len(b) == len(s.token) {
		copy(s.token[:], b)
	}
	s.endedBy, s.endCaller, s.wouldEnd = m.EndedBy, m.EndCaller, m.WouldEnd
	s.cpuDead, s.receipt = m.CPUDead, enforcer.Resume(m.Receipt)
	s.brokered, s.kept = m.Brokered, m.Kept
	if s.output == "" {
		s.output = m.Output
	}
	if m.RootDied != 0 {
		s.rootDied = uint64(m.RootDied)
	}
}

// row is a session on its way into the history: copied in the registry's
// goroutine, encoded outside of it.
type row struct {
	id, parent tracer.SessionID
	created    uint64
	zero       time.Time
	ended      *time.Time
	doc        api.Session
	report     *api.Report
	memory     memory
}

func (o *Registry) row(s *Session) row {
	x := row{
		id: s.info.ID, parent: s.info.Parent, created: s.info.Created, zero: o.clock.Zero(),
		doc: o.session(s, access.Caller{}), report: s.report, memory: s.memory(),
	}
	if s.closed {
		x.ended = o.clock.Wall(s.emptyAt)
	}
	return x
}

// session encodes a row, without its secrets.
func (x *row) session(r *recorder) (s journal.Session, err error) {
	s = journal.Session{
		Boot: r.boot, ID: x.id, Word: x.doc.ID, Name: x.doc.Name, UID: uint32(x.doc.UID), Parent: x.parent,
		Zero: x.zero, Started: x.zero.Add(time.Duration(x.created)),
	}
	if x.doc.Root != nil {
		root := *x.doc.Root
		root.Argv = r.redact(root.Argv)
		x.doc.Root = &root
	}
	x.doc.Brokered = hushed(x.doc.Brokered, r.redact)
	if s.Doc, err = json.Marshal(&x.doc); err != nil {
		return s, fmt.Errorf("encode session: %w", err)
	}
	if x.report != nil {
		shown := *x.report
		shown.Processes = redacted(shown.Processes, r.redact)
		shown.Brokered = hushed(shown.Brokered, r.redact)
		if s.Report, err = json.Marshal(&shown); err != nil {
			return s, fmt.Errorf("encode receipt: %w", err)
		}
	}
	if x.ended != nil {
		s.Ended = *x.ended
		return s, nil // nobody has to remember more
	}
	for _, e := range x.memory.Brokered.Errands {
		e.Argv = r.redact(e.Argv)
	}
	x.memory.Receipt.Outcomes = redacted(x.memory.Receipt.Outcomes, r.redact)
	if s.State, err = json.Marshal(&x.memory); err != nil {
		return s, fmt.Errorf("encode session: %w", err)
	}
	return s, nil
}

// redacted is a copy of outcomes without secrets.
func redacted(outcomes []api.Outcome, redact func([]string) []string) []api.Outcome {
	out := append([]api.Outcome{}, outcomes...)
	for i := range out {
		out[i].Argv = redact(out[i].Argv)
	}
	return out
}

// hushed is a copy of brokered work without secrets.
func hushed(all []api.Brokered, redact func([]string) []string) []api.Brokered {
	out := slices.Clone(all)
	for i := range out {
		if out[i].Asked != nil {
			asked := *out[i].Asked
			asked.Argv = redact(asked.Argv)
			out[i].Asked = &asked
		}
	}
	return out
}
