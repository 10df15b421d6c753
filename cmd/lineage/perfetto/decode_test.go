package perfetto

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

// read is a trace as a viewer has it.
type read struct {
	t       testing.TB
	dump    strings.Builder
	tracks  map[uint64]*readTrack
	flows   map[uint64]*readFlow
	slices  map[string]int // by category
	marks   map[string]int
	gaps    []string
	packets int
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

// decode reads a trace, and fails the test if a viewer would drop or misplace anything of
// it: tracks are described before their events and below tracks that are, slices nest and
// end, time runs forward on every track, and an arrow has two ends.
func decode(t testing.TB, b []byte) *read {
	t.Helper()
	r := &read{t: t, tracks: map[uint64]*readTrack{}, flows: map[uint64]*readFlow{}, slices: map[string]int{}, marks: map[string]int{}}
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
	return r
}

func (r *read) text(b []byte) string {
	r.t.Helper()
	if !utf8.Valid(b) || len(b) > maxNote {
		r.t.Errorf("invalid text: %.100q, %d bytes", b, len(b))
	}
	return string(b)
}

func (r *read) packet(b []byte) {
	r.t.Helper()
	r.packets++
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
			r.dump.WriteString("clocks")
			for _, c := range fields(r.t, f.bytes) {
				if c.field == 1 {
					one := fields(r.t, c.bytes)
					fmt.Fprintf(&r.dump, " %d=%d", one[0].n, one[1].n)
				}
			}
			r.dump.WriteString("\n")
		case 60:
			r.track(f.bytes)
		case 11:
			r.event(at, f.bytes)
		default:
			r.t.Errorf("packet has field %d", f.field)
		}
	}
}

func (r *read) track(b []byte) {
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
		fmt.Fprintf(&r.dump, "track %q is %q now\n", old.name, track.name)
		old.name = track.name
		return
	}
	r.tracks[uuid] = track
	fmt.Fprintf(&r.dump, "track %q below %q rank=%d children=%d\n", track.name, parent, rank, children)
}

func (r *read) event(at uint64, b []byte) {
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
	fmt.Fprintf(&r.dump, "%d %s: ", at, track.name)
	switch kind {
	case 1:
		track.open = append(track.open, name)
		r.slices[category]++
		if category == "gap" {
			r.gaps = append(r.gaps, name)
		}
		fmt.Fprintf(&r.dump, "[ %s %q", category, name)
	case 2:
		if len(track.open) == 0 {
			r.t.Fatalf("track %s: the end of nothing", track.name)
		}
		track.open = track.open[:len(track.open)-1]
		r.dump.WriteString("]")
	case 3:
		r.marks[name]++
		fmt.Fprintf(&r.dump, "! %s %q", category, name)
	case 4:
		track.max = max(track.max, count)
		fmt.Fprintf(&r.dump, "%g", count)
	default:
		r.t.Errorf("type %d", kind)
	}
	r.flow(begins, ends, uuid, at)
	fmt.Fprintf(&r.dump, "%s\n", notes)
}

func (r *read) flow(begins, ends, uuid, at uint64) {
	for _, id := range []uint64{begins, ends} {
		if id != 0 && r.flows[id] == nil {
			r.flows[id] = &readFlow{}
		}
	}
	if f := r.flows[begins]; f != nil {
		f.begins, f.from, f.left = f.begins+1, uuid, at
		r.dump.WriteString(" ->")
	}
	if f := r.flows[ends]; f != nil {
		f.ends, f.to, f.arrived = f.ends+1, uuid, at
		r.dump.WriteString(" <- " + r.tracks[f.from].name)
	}
}
