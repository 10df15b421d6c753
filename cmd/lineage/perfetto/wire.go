package perfetto

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// event is a Chrome trace event.
type event struct {
	Phase    phase  `json:"ph"`
	Name     string `json:"name,omitempty"`
	Category string `json:"cat,omitempty"`
	PID      int    `json:"pid"` // of all: the session
	Track    int    `json:"tid,omitempty"`
	At       ns     `json:"ts"`           // boottime; viewers want one in each event
	ID       int    `json:"id,omitempty"` // of an arrow, or of a slice that may overlap others
	Binding  string `json:"bp,omitempty"`
	Scope    string `json:"s,omitempty"`
	Notes    notes  `json:"args,omitempty"`
}

type phase string

const (
	metadata   phase = "M"
	sliceBegin phase = "B"
	sliceEnd   phase = "E"
	spanBegin  phase = "b" // it may overlap others
	spanEnd    phase = "e"
	instant    phase = "i"
	counter    phase = "C"
	arrowFrom  phase = "s" // in the slice that is open on the track
	arrowTo    phase = "f"
)

// ns is a time in ns, which viewers read in µs.
type ns uint64

func (n ns) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%d.%03d", n/1000, n%1000), nil }

// notes are facts about an event, which the viewer shows when the event is selected.
type notes map[string]any

// say adds a text, if it is not empty.
func (n notes) say(name, text string) {
	if text != "" {
		n[name] = clean(text, maxNote)
	}
}

// emit writes an event.
func (t *Trace) emit(e event) {
	e.PID, e.Name = 1, clean(e.Name, maxName)
	line, err := json.Marshal(&e)
	if err == nil {
		_, err = fmt.Fprintf(t.out, "%s%s", t.separator, line) // nothing, after an error
	}
	t.separator, t.err = ",\n", cmp.Or(t.err, err)
}

// mark adds an instant to a track.
func (t *Trace) mark(at uint64, track int, category, name string, about notes) {
	t.emit(event{Phase: instant, Scope: "t", At: ns(at), Track: track, Category: category, Name: name, Notes: about})
}

// describe adds a track. Viewers sort them by number.
func (t *Trace) describe(track int, name string) {
	t.emit(event{Phase: metadata, Name: "thread_sort_index", Track: track, Notes: notes{"sort_index": track}})
	t.rename(track, name)
}

func (t *Trace) rename(track int, name string) {
	t.emit(event{Phase: metadata, Name: "thread_name", Track: track, Notes: notes{"name": clean(name, maxName)}})
}
