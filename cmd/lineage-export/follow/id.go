package follow

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/lineage-ebpf/lineage/api"
)

// TraceID and SpanID are OpenTelemetry's.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// Trace is a place in a trace: TRACEPARENT holds one.
type Trace struct {
	TraceID TraceID `json:"trace_id"`
	SpanID  SpanID  `json:"span_id"`
}

// Span is the name of a span, and of the one above it.
type Span struct {
	Trace
	Parent SpanID `json:"parent,omitzero"` // zero: it is a root
}

func (t TraceID) String() string { return hex.EncodeToString(t[:]) }
func (s SpanID) String() string  { return hex.EncodeToString(s[:]) }

// UnmarshalText reads the hexadecimal form.
func (t *TraceID) UnmarshalText(b []byte) error { return unhex(t[:], b) }

// UnmarshalText reads the hexadecimal form.
func (s *SpanID) UnmarshalText(b []byte) error { return unhex(s[:], b) }

func unhex(to, from []byte) error {
	if hex.DecodedLen(len(from)) != len(to) {
		return fmt.Errorf("parse id %q: want %d hexadecimal digits", from, hex.EncodedLen(len(to)))
	}
	_, err := hex.Decode(to, from)
	return err
}

// digest is the hash of a list of words, with unambiguous word boundaries.
func digest(words ...any) []byte {
	text := make([]byte, 0, 256)
	for _, w := range words {
		at := len(text)
		text = append(text, 0, 0, 0, 0)
		switch w := w.(type) {
		case string:
			text = append(text, w...)
		case int:
			text = strconv.AppendInt(text, int64(w), 10)
		case uint64:
			text = strconv.AppendUint(text, w, 10)
		default:
			text = fmt.Append(text, w)
		}
		binary.BigEndian.PutUint32(text[at:], uint32(len(text)-at-4))
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// sessionTrace is the trace of a session that no agent claims.
func sessionTrace(host, boot, session string) TraceID {
	return TraceID(digest("trace", host, boot, session)[:16])
}

func sessionSpan(host, boot, session string) SpanID {
	return SpanID(digest("session", host, boot, session)[:8])
}

func processSpan(host, boot string, p api.Ref) SpanID {
	return SpanID(digest("process", host, boot, p.PID, uint64(p.StartNS))[:8])
}

// SpanOf is a span of what one record reports.
func SpanOf(r *Record) SpanID { return SpanID(digest("record", r.ID)[:8]) }

// Span is the place of a record in a trace: its process's, else its session's. A process is below its
// creator, if that is in the same trace, else below what the agent claims, else below the session.
func (r *Record) Span() Span {
	p := r.Process()
	if r.Session == nil || p == nil {
		if r.Session == nil {
			return Span{}
		}
		return r.Session.Span
	}
	s := r.Session
	sp := Span{Trace: Trace{TraceID: s.Span.TraceID, SpanID: processSpan(r.Host.ID, r.Boot, p.Ref)},
		Parent: s.Span.SpanID}
	first := s.Root != nil && s.Root.Ref == p.Ref || p.Evidence != nil && p.Evidence.Kind == "adopted"
	if t := p.Trace; t != nil {
		var claimed Trace
		if claimed.TraceID.UnmarshalText([]byte(t.TraceID)) == nil &&
			claimed.SpanID.UnmarshalText([]byte(t.SpanID)) == nil {
			sp.TraceID, sp.Parent, first = claimed.TraceID, claimed.SpanID, t.From == p.Ref
		}
	}
	if p.Creator != nil && !first {
		sp.Parent = processSpan(r.Host.ID, r.Boot, *p.Creator)
	}
	return sp
}

// ProcessUID names a process, whatever program it runs.
func ProcessUID(r *Record, p api.Ref) string {
	return DerivedID("process", r.Host.ID, r.Boot, p.PID, uint64(p.StartNS))
}

// SessionUID is a session's id over all hosts and boots: its trace, if no agent claims the
// session.
func SessionUID(r *Record, id string) string { return sessionTrace(r.Host.ID, r.Boot, id).String() }

// DerivedID is an id derived from other ids.
func DerivedID(words ...any) string { return hex.EncodeToString(digest(words...)[:16]) }

// eventID names an event. The sequence number is not part of it: events of an earlier
// boot have none.
func eventID(host, boot string, kind Kind, e *api.Event) string {
	process := ""
	if e.Process != nil {
		process = e.Process.Ref.String()
	}
	port := ""
	if e.Port != nil {
		port = fmt.Sprint(e.Port.Proto, " ", e.Port.Addr, " ", e.Port.Port)
	}
	return DerivedID("event", host, boot, string(kind), uint64(e.TimeNS), process, e.Session, string(e.State), port,
		uint64(e.LostFrom), uint64(e.LostTo), e.Count)
}
