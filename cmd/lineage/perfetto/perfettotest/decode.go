// Package perfettotest reads a timeline as a viewer does, for tests.
package perfettotest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Read is a timeline as a viewer has it.
type Read struct {
	Processes int            // that have a track
	Flows     int            // arrows
	Marks     map[string]int // instants by name
	Gaps      []string       // names of the slices of missing events
	Events    int

	t      testing.TB
	dump   strings.Builder
	tracks map[int]*track
	flows  map[int]*flow
	spans  map[int]string // that are open
}

// maxDump limits what is kept as text.
const maxDump = 1 << 20

// Text is what was read, a line for each event.
func (r *Read) Text() string { return r.dump.String() }

type track struct {
	name    string
	process bool
	last    int64
	open    []string
}

type flow struct {
	from, to      int // tracks
	begins, ends  int
	left, arrived int64
}

// event is a Chrome trace event. Its fields have the names of the format.
type event struct {
	Ph, Name, Cat, Bp, S string
	PID, TID, ID         int
	Ts                   *float64
	Args                 map[string]any
}

// Decode reads a timeline, and fails the test if a viewer would drop or misplace anything:
// tracks are described before their events, slices nest and end, time runs forward on every
// track, and an arrow has two ends, each in a slice.
func Decode(t testing.TB, b []byte) *Read {
	t.Helper()
	r := &Read{t: t, tracks: map[int]*track{}, flows: map[int]*flow{}, spans: map[int]string{}, Marks: map[string]int{}}
	var events []event
	if err := json.Unmarshal(b, &events); err != nil || !utf8.Valid(b) {
		t.Fatalf("not UTF-8, or not JSON: %v", err)
	}
	r.Events = len(events)
	for i := range events {
		r.event(&events[i])
	}
	for _, track := range r.tracks {
		if len(track.open) > 0 {
			t.Errorf("track %s: %q is never closed", track.name, track.open)
		}
		if track.process {
			r.Processes++
		}
	}
	if len(r.spans) > 0 {
		t.Errorf("never closed: %v", r.spans)
	}
	for id, f := range r.flows {
		if f.begins != 1 || f.ends != 1 || f.left > f.arrived || f.from == f.to {
			t.Errorf("flow %d: %+v", id, *f)
		}
	}
	r.Flows = len(r.flows)
	return r
}

func (r *Read) say(format string, args ...any) {
	if r.dump.Len() < maxDump {
		fmt.Fprintf(&r.dump, format, args...)
	}
}

// maxText is the longest name or note.
const maxText = 2048

func (r *Read) event(e *event) {
	r.t.Helper()
	args := ""
	for _, key := range slices.Sorted(maps.Keys(e.Args)) {
		args += fmt.Sprintf(" %s=%v", key, e.Args[key])
		if s, _ := e.Args[key].(string); len(s) > maxText || len(e.Name) > maxText {
			r.t.Errorf("text is too long: %.100q", s)
		}
	}
	if e.Ts == nil || (*e.Ts == 0) != (e.Ph == "M") {
		r.t.Fatalf("an event without a time: %+v", e)
	}
	if e.Ph == "M" {
		r.describe(e)
		return
	}
	at := int64(math.Round(*e.Ts * 1000))
	if e.Ph == "C" {
		r.say("%d %s:%s\n", at, e.Name, args)
		return
	}
	track := r.tracks[e.TID]
	if track == nil {
		r.t.Fatalf("an event on no track: %+v", e)
	}
	if at < track.last && e.Ph != "b" && e.Ph != "e" {
		r.t.Errorf("track %s: %q at %d, after %d", track.name, e.Name, at, track.last)
	}
	track.last = max(at, track.last)
	r.say("%d %s: %s %s %q%s\n", at, track.name, e.Ph, e.Cat, e.Name, args)
	switch e.Ph {
	case "B":
		track.open = append(track.open, e.Name)
		track.process = track.process || e.Cat == "fork" || e.Cat == "image"
		if e.Cat == "gap" {
			r.Gaps = append(r.Gaps, e.Name)
		}
	case "E":
		n := len(track.open)
		if n == 0 || track.open[n-1] != e.Name {
			r.t.Fatalf("track %s: the end of %q, open are %q", track.name, e.Name, track.open)
		}
		track.open = track.open[:n-1]
	case "b", "e":
		if name, open := r.spans[e.ID]; open != (e.Ph == "e") || open && name != e.Name {
			r.t.Fatalf("span %d: %s %q, open is %q", e.ID, e.Ph, e.Name, name)
		}
		if r.spans[e.ID] = e.Name; e.Ph == "e" {
			delete(r.spans, e.ID)
		}
	case "i":
		r.Marks[e.Name]++
	case "s", "f":
		r.arrow(e, at, track)
	default:
		r.t.Errorf("phase %q", e.Ph)
	}
}

func (r *Read) describe(e *event) {
	name, _ := e.Args["name"].(string)
	old := r.tracks[e.TID]
	switch {
	case e.Name != "thread_name":
	case old != nil:
		r.say("track %q is %q now\n", old.name, name)
		old.name = name
	default:
		r.tracks[e.TID] = &track{name: name}
		r.say("track %q\n", name)
	}
}

func (r *Read) arrow(e *event, at int64, on *track) {
	f := r.flows[e.ID]
	if f == nil {
		f = &flow{}
		r.flows[e.ID] = f
	}
	if len(on.open) == 0 {
		r.t.Errorf("track %s: an arrow in no slice", on.name)
	}
	if e.Ph == "s" {
		f.begins, f.from, f.left = f.begins+1, e.TID, at
	} else {
		f.ends, f.to, f.arrived = f.ends+1, e.TID, at
	}
}
