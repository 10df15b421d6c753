//go:build linux

package registry

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/enforcer"
)

// memory is what a restarted daemon remembers of a live session, other than what the
// kernel and the features hold.
type memory struct {
	EndedBy   *api.Caller     `json:"ended_by,omitempty"`
	EndCaller *audit.Caller   `json:"end_caller,omitempty"`
	RootDied  api.U64         `json:"root_died,omitempty"`
	CPUDead   time.Duration   `json:"cpu_dead_ns,omitempty"`
	Joined    int             `json:"joined,omitempty"`
	Receipt   enforcer.Booked `json:"receipt"`
}

// Redact implements [Memory].
func (m *memory) Redact(redact func([]string) []string) {
	m.Receipt.Outcomes = document.Redacted(m.Receipt.Outcomes, redact)
}

// Memory copies what is remembered of a session, by the registry and by the features.
func (v View) Memory(s *Session) []Memory {
	all := []Memory{&memory{
		EndedBy: s.endedBy, EndCaller: s.endCaller, RootDied: api.U64(s.rootDied), CPUDead: s.cpuDead,
		Joined: s.joined, Receipt: s.receipt.Booked(),
	}}
	for _, h := range v.r.hooks {
		if h.Persistent != nil {
			all = append(all, h.Persistent.Remember(v, s))
		}
	}
	return all
}

// EncodeMemory makes one JSON object of all, which have no key in common.
func EncodeMemory(all []Memory) ([]byte, error) {
	text := []byte{'{'}
	for _, m := range all {
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		if b = bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("{")), []byte("}")); len(b) == 0 {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, b...)
	}
	return append(text, '}'), nil
}

// restore applies what the previous daemon knew.
func (v View) restore(s *Session, text json.RawMessage) {
	var m memory
	if err := json.Unmarshal(text, &m); err != nil {
		v.r.log.Error().Err(err).Str(logging.KeySession, s.info.ID.String()).Msg("session not restored from the history")
		return
	}
	s.endedBy, s.endCaller = m.EndedBy, m.EndCaller
	s.cpuDead, s.joined, s.receipt = m.CPUDead, m.Joined, enforcer.Resume(m.Receipt)
	v.r.ended.Book(s.info.UID, s.receipt.Size())
	if m.RootDied != 0 {
		s.rootDied = uint64(m.RootDied)
	}
	for _, h := range v.r.hooks {
		if h.Persistent != nil {
			h.Persistent.Restore(v, s, text)
		}
	}
}
