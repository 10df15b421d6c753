// Package perfettotest reads a timeline as a viewer does, for tests.
package perfettotest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// value is a field of a decoded message.
type value struct {
	field protowire.Number
	n     uint64
	bytes []byte
}

func fields(t testing.TB, b []byte) (all []value) {
	t.Helper()
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("tag: %v", protowire.ParseError(n))
		}
		b = b[n:]
		v := value{field: field}
		switch kind {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v.n, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("field %d has wire type %d", field, kind)
		}
		if n < 0 {
			t.Fatalf("field %d: %v", field, protowire.ParseError(n))
		}
		b = b[n:]
		all = append(all, v)
	}
	return all
}

// Read is a timeline as a viewer has it.
type Read struct {
	Processes int            // that have a track
	Flows     int            // arrows
	Slices    map[string]int // by category
	Marks     map[string]int // instants by name
	Gaps      []string       // names of the slices of missing events
	Packets   int

	t      testing.TB
	dump   strings.Builder
	tracks map[uint64]*readTrack
	flows  map[uint64]*readFlow
}

// maxDump limits what is kept as text.
const maxDump = 1 << 20

// Text is what was read, a line for each packet.
func (r *Read) Text() string { return r.dump.String() }

// Track reports whether there is a track of that name.
func (r *Read) Track(name string) bool {
	for _, track := range r.tracks {
		if track.name == name {
			return true
		}
	}
	return false
}

func (r *Read) say(format string, args ...any) {
	if r.dump.Len() < maxDump {
		fmt.Fprintf(&r.dump, format, args...)
	}
}

type readTrack struct {
	name   string
	parent uint64
	counts bool
	last   uint64
	open   []string
	max    float64
}

type readFlow struct {
	from, to      uint64 // tracks
	begins, ends  int
	left, arrived uint64
}

// Decode reads a timeline, and fails the test if a viewer would drop or misplace anything:
// tracks are described before their events and below known tracks, slices nest and end, time
// runs forward on every track, and an arrow has two ends.
func Decode(t testing.TB, b []byte) *Read {
	t.Helper()
	r := &Read{t: t, tracks: map[uint64]*readTrack{}, flows: map[uint64]*readFlow{}, Slices: map[string]int{}, Marks: map[string]int{}}
	for _, p := range fields(t, b) {
		if p.field != 1 {
			t.Fatalf("field %d of the trace", p.field)
		}
		r.packet(p.bytes)
	}
	for uuid, track := range r.tracks {
		if len(track.open) > 0 {
			t.Errorf("track %s: %q is never closed", track.name, track.open)
		}
		for depth, up := 0, uuid; up != 0; depth++ {
			if r.tracks[up] == nil || depth >= 100 {
				t.Fatalf("track %s: nested %d deep, or below a track that is missing", track.name, depth)
			}
			up = r.tracks[up].parent
		}
	}
	for id, f := range r.flows {
		if f.begins != 1 || f.ends != 1 || f.left > f.arrived || f.from == f.to {
			t.Errorf("flow %d: %+v", id, *f)
		}
	}
	r.Flows = len(r.flows)
	return r
}

// maxText is the longest name or note.
const maxText = 2048

func (r *Read) text(b []byte) string {
	r.t.Helper()
	if !utf8.Valid(b) || len(b) > maxText {
		r.t.Errorf("invalid text: %.100q, %d bytes", b, len(b))
	}
	return string(b)
}

func (r *Read) packet(b []byte) {
	r.t.Helper()
	r.Packets++
	var at uint64
	for _, f := range fields(r.t, b) {
		switch f.field {
		case 8:
			at = f.n
		case 10, 13:
			if f.n != 1 {
				r.t.Errorf("field %d is %d", f.field, f.n)
			}
		case 6:
			r.say("clocks")
			for _, c := range fields(r.t, f.bytes) {
				if c.field == 1 {
					one := fields(r.t, c.bytes)
					r.say(" %d=%d", one[0].n, one[1].n)
				}
			}
			r.say("\n")
		case 60:
			r.track(f.bytes)
		case 11:
			r.event(at, f.bytes)
		default:
			r.t.Errorf("packet has field %d", f.field)
		}
	}
}

func (r *Read) track(b []byte) {
	var uuid, rank, children uint64
	track := &readTrack{}
	for _, f := range fields(r.t, b) {
		switch f.field {
		case 1:
			uuid = f.n
		case 2:
			track.name = r.text(f.bytes)
		case 5:
			track.parent = f.n
		case 8:
			track.counts = true
		case 11:
			children = f.n
		case 12:
			rank = f.n
		}
	}
	parent := "-"
	if track.parent != 0 {
		if r.tracks[track.parent] == nil {
			r.t.Fatalf("track %s: its parent %d is not described", track.name, track.parent)
		}
		parent = r.tracks[track.parent].name
	}
	if old := r.tracks[uuid]; old != nil {
		if old.parent != track.parent {
			r.t.Errorf("track %s moves to another parent", track.name)
		}
		r.say("track %q is %q now\n", old.name, track.name)
		old.name = track.name
		return
	}
	r.tracks[uuid] = track
	if children == 2 {
		r.Processes++
	}
	r.say("track %q below %q rank=%d children=%d\n", track.name, parent, rank, children)
}

func (r *Read) event(at uint64, b []byte) {
	r.t.Helper()
	var kind, uuid uint64
	var category, name, notes string
	var count float64
	var begins, ends uint64
	for _, f := range fields(r.t, b) {
		switch f.field {
		case 4:
			note := fields(r.t, f.bytes)
			notes += " " + string(note[0].bytes) + "="
			if note[1].bytes != nil {
				notes += r.text(note[1].bytes)
			} else {
				notes += fmt.Sprint(note[1].n)
			}
		case 9:
			kind = f.n
		case 11:
			uuid = f.n
		case 22:
			category = r.text(f.bytes)
		case 23:
			name = r.text(f.bytes)
		case 44:
			count = math.Float64frombits(f.n)
		case 47:
			begins = f.n
		case 48:
			ends = f.n
		default:
			r.t.Errorf("event has field %d", f.field)
		}
	}
	track := r.tracks[uuid]
	if track == nil || track.counts != (kind == 4) || at == 0 {
		r.t.Fatalf("event %d %q at %d on track %d, %+v", kind, name, at, uuid, track)
	}
	if at < track.last {
		r.t.Errorf("track %s: %q at %d, after %d", track.name, name, at, track.last)
	}
	track.last = at
	r.say("%d %s: ", at, track.name)
	switch kind {
	case 1:
		track.open = append(track.open, name)
		r.Slices[category]++
		if category == "gap" {
			r.Gaps = append(r.Gaps, name)
		}
		r.say("[ %s %q", category, name)
	case 2:
		if len(track.open) == 0 {
			r.t.Fatalf("track %s: the end of nothing", track.name)
		}
		track.open = track.open[:len(track.open)-1]
		r.say("]")
	case 3:
		r.Marks[name]++
		r.say("! %s %q", category, name)
	case 4:
		track.max = max(track.max, count)
		r.say("%g", count)
	default:
		r.t.Errorf("type %d", kind)
	}
	r.flow(begins, ends, uuid, at)
	r.say("%s\n", notes)
}

func (r *Read) flow(begins, ends, uuid, at uint64) {
	for _, id := range []uint64{begins, ends} {
		if id != 0 && r.flows[id] == nil {
			r.flows[id] = &readFlow{}
		}
	}
	if f := r.flows[begins]; f != nil {
		f.begins, f.from, f.left = f.begins+1, uuid, at
		r.say(" ->")
	}
	if f := r.flows[ends]; f != nil {
		f.ends, f.to, f.arrived = f.ends+1, uuid, at
		r.say(" <- %s", r.tracks[f.from].name)
	}
}
