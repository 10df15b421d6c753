package perfetto

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of Perfetto's messages that a trace uses, by message. They are part of the
// public format and never change.
const (
	tracePacket = 1

	packetClockSnapshot = 6
	packetTimestamp     = 8
	packetSequence      = 10
	packetTrackEvent    = 11
	packetFlags         = 13
	packetTrack         = 60

	snapshotClock   = 1
	snapshotPrimary = 2
	clockID         = 1
	clockTimestamp  = 2

	trackUUID     = 1
	trackName     = 2
	trackParent   = 5
	trackCounter  = 8
	trackChildren = 11
	trackRank     = 12
	trackMerge    = 15

	counterUnit = 3

	eventNote             = 4
	eventType             = 9
	eventTrack            = 11
	eventCategory         = 22
	eventName             = 23
	eventDoubleCounter    = 44
	eventFlow             = 47
	eventTerminatingFlow  = 48
	noteInt               = 4
	noteString            = 6
	noteName              = 10
	clockRealtime         = 1
	clockBoottime         = 6
	flagStateCleared      = 1
	mergeNever            = 2
	childrenChronological = 2
	childrenByRank        = 3
	unitCount             = 2
	unitBytes             = 3
)

// eventKind is the type of a TrackEvent.
type eventKind uint64

const (
	sliceBegin eventKind = 1
	sliceEnd   eventKind = 2
	instant    eventKind = 3
	counter    eventKind = 4
)

// message is a protobuf message that is being written.
type message []byte

func (m *message) uint(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) fixed(field protowire.Number, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), v)
}

func (m *message) double(field protowire.Number, v float64) { m.fixed(field, math.Float64bits(v)) }

func (m *message) string(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) message(field protowire.Number, inner message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), inner)
}

// note is a fact about an event, which the viewer shows when the event is selected.
type note struct {
	name string
	text string
	n    int64 // if text is ""
}

// happening is a TrackEvent.
type happening struct {
	at       uint64 // ns of boottime
	kind     eventKind
	track    uint64
	category string
	name     string
	begins   uint64 // the flow that leads from here; 0: none
	ends     uint64 // the flow that leads to here; 0: none
	notes    []note
}

// said adds a note, if text is not empty.
func said(notes []note, name, text string) []note {
	if text == "" {
		return notes
	}
	return append(notes, note{name: name, text: text})
}

func (h *happening) encode() message {
	var m message
	for _, n := range h.notes {
		var one message
		one.string(noteName, n.name)
		if n.text != "" {
			one.string(noteString, clean(n.text, maxNote))
		} else {
			one.uint(noteInt, uint64(n.n))
		}
		m.message(eventNote, one)
	}
	m.uint(eventType, uint64(h.kind))
	m.uint(eventTrack, h.track)
	if h.category != "" {
		m.string(eventCategory, h.category)
	}
	if h.name != "" {
		m.string(eventName, clean(h.name, maxName))
	}
	if h.begins != 0 {
		m.fixed(eventFlow, h.begins)
	}
	if h.ends != 0 {
		m.fixed(eventTerminatingFlow, h.ends)
	}
	return m
}

// track is a TrackDescriptor.
type track struct {
	uuid, parent uint64
	name         string
	rank         uint64 // among its siblings, if their parent says byRank
	children     uint64 // how they are ordered; 0: the viewer decides
	lanes        bool   // shown merged with tracks of the same name; else never, as PIDs are reused
	counts       bool   // it is a counter
	unit         uint64 // of the counter; 0: a number
}

func (t *track) encode() message {
	var m message
	m.uint(trackUUID, t.uuid)
	m.string(trackName, clean(t.name, maxName))
	if t.parent != 0 {
		m.uint(trackParent, t.parent)
	}
	if t.counts {
		var c message
		if t.unit != 0 {
			c.uint(counterUnit, t.unit)
		}
		m.message(trackCounter, c)
	}
	if t.children != 0 {
		m.uint(trackChildren, t.children)
	}
	if t.rank != 0 {
		m.uint(trackRank, t.rank)
	}
	if !t.lanes {
		m.uint(trackMerge, mergeNever)
	}
	return m
}
