//go:build linux

package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
)

// Part is something that is remembered of a session across daemon restarts, as the registry and each
// feature name it. The value is encoded as JSON, outside of the registry's goroutine, and left out if
// it is empty. If it has command lines it is a [Redactor].
type Part struct {
	Name  string
	Value any
}

// Redactor replaces its command lines by redacted ones.
type Redactor interface {
	Redact(func(argv []string) []string)
}

// Parts are those that an earlier daemon wrote.
type Parts map[string]json.RawMessage

func (p Parts) Decode(name string, into any) error {
	if p[name] == nil {
		return nil
	}
	if err := json.Unmarshal(p[name], into); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}

type booked struct{ enforcer.Booked }

// Redact implements [Redactor].
func (b *booked) Redact(redact func([]string) []string) {
	b.Outcomes = document.Redacted(b.Outcomes, redact)
}

func (v View) Memory(s *Session) []Part {
	all := []Part{
		{"ended_by", s.endedBy}, {"end_caller", s.endCaller}, {"root_died", api.U64(s.rootDied)},
		{"cpu_dead_ns", s.cpuDead},
		{"joined", s.joined}, {"timeout_ns", s.timeout}, {"receipt", &booked{s.receipt.Booked()}},
	}
	for _, h := range v.r.hooks {
		if h.Persistent != nil {
			all = append(all, h.Persistent.Remember(v, s)...)
		}
	}
	return all
}

// EncodeMemory redacts all parts and makes one JSON object of them.
func EncodeMemory(all []Part, redact func(argv []string) []string) ([]byte, error) {
	parts := make(Parts, len(all))
	for _, p := range all {
		if empty(p.Value) {
			continue
		}
		if parts[p.Name] != nil {
			return nil, fmt.Errorf("two parts are named %q", p.Name)
		}
		if r, ok := p.Value.(Redactor); ok {
			r.Redact(redact)
		}
		text, err := json.Marshal(p.Value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", p.Name, err)
		}
		parts[p.Name] = text
	}
	return json.Marshal(parts)
}

func empty(value any) bool {
	v := reflect.ValueOf(value)
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

func (v View) restore(s *Session, text json.RawMessage) {
	var was Parts
	var receipt enforcer.Booked
	err := json.Unmarshal(text, &was)
	for name, into := range map[string]any{
		"ended_by": &s.endedBy, "end_caller": &s.endCaller, "cpu_dead_ns": &s.cpuDead,
		"joined": &s.joined, "timeout_ns": &s.timeout, "receipt": &receipt,
	} {
		err = errors.Join(err, was.Decode(name, into))
	}
	s.receipt = enforcer.Resume(receipt)
	v.r.ended.Book(s.info.UID, s.receipt.Size())
	if died := api.U64(s.rootDied); was.Decode("root_died", &died) == nil {
		s.rootDied = uint64(died)
	}
	for _, h := range v.r.hooks {
		if h.Persistent != nil {
			err = errors.Join(err, h.Persistent.Restore(v, s, was))
		}
	}
	system.Failure(v.r.o.Log, err).
		Str(system.KeySession, s.info.ID.String()).Msg("session not restored from the history")
}
