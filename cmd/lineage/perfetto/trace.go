package perfetto

import (
	"bufio"
	"cmp"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lineage-ebpf/lineage/api"
)

// maxDepth bounds how deep tracks are nested. The viewer drops what is 100 levels deep, so
// a deeper process becomes a sibling of its creator.
const maxDepth = 90

// Trace is the trace of one session while it is written. It is not safe for concurrent use.
// Errors of the writer are kept: Err and Close give the first.
type Trace struct {
	out     *bufio.Writer
	err     error
	redact  func(argv []string) []string
	session *api.Session

	begun   bool
	clocked bool
	offset  int64             // from boottime to the time of day
	now     uint64            // ns of boottime of the newest event
	members map[int]*member   // by PID, until they are reaped
	live    int64             // how many of members are alive
	calls   map[uint64]uint64 // open tool calls: when they began, by track
	gap     *gap              // whose end is not known yet
	gapEnd  uint64            // the end of the last gap
	counts  map[string]bool   // the counters that have a track
	usage   usage             // as last reported
}

// gap is a period with missing events.
type gap struct {
	where string
	count uint64
	since uint64 // ns; 0: not known
}

// New begins the trace of a session. redact hides secrets in arguments; nil leaves
// arguments out.
func New(w io.Writer, s *api.Session, redact func(argv []string) []string) *Trace {
	t := &Trace{out: bufio.NewWriterSize(w, 64<<10), redact: redact, session: s, members: make(map[int]*member), counts: make(map[string]bool), calls: make(map[uint64]uint64)}
	var first message
	first.uint(packetSequence, 1)
	first.uint(packetFlags, flagStateCleared)
	t.write(first)
	root := track{uuid: t.id("session"), name: "session " + cmp.Or(s.Name, s.ID), children: childrenByRank}
	t.describe(&root)
	return t
}

// id is the id of a track that exists once in a session.
func (t *Trace) id(kind string) uint64 { return id(kind, t.session.ID) }

// Err is the first error of the writer.
func (t *Trace) Err() error { return t.err }

// Flush writes what is buffered.
func (t *Trace) Flush() error {
	if err := t.out.Flush(); t.err == nil {
		t.err = err
	}
	return t.err
}

// Close ends what is still open, and adds the receipt, if there is one.
func (t *Trace) Close(r *api.Report) error {
	t.fill(t.now)
	for _, m := range t.inOrder() {
		if !m.dead {
			t.end(m, t.now, note{name: "end", text: "not seen"})
		}
	}
	t.closeCalls()
	if r != nil {
		t.receipt(r)
	}
	if t.begun {
		t.emit(&happening{at: t.now, kind: sliceEnd, track: t.id("session")})
	}
	return t.Flush()
}

// tick advances the time, and at the first event opens the session's slice.
func (t *Trace) tick(at uint64, wall *time.Time) {
	if wall != nil {
		t.offset = wall.UnixNano() - int64(at)
		if !t.clocked {
			t.clocked = true
			t.clocks(at, *wall)
		}
	}
	if !t.begun {
		t.begun = true
		t.emit(&happening{at: at, kind: sliceBegin, track: t.id("session"), category: "session",
			name: "session " + cmp.Or(t.session.Name, t.session.ID), notes: []note{{name: "session", text: t.session.ID}}})
	}
	if t.gap != nil && t.gap.since == 0 && wall != nil && t.session.Started != nil {
		t.gap.since = uint64(max(t.session.Started.UnixNano()-t.offset, 1))
	}
	t.now = max(t.now, at)
}

// clocks relates the time of the events to the time of day.
func (t *Trace) clocks(at uint64, wall time.Time) {
	var snapshot message
	for _, c := range [][2]uint64{{clockBoottime, at}, {clockRealtime, uint64(wall.UnixNano())}} {
		var one message
		one.uint(clockID, c[0])
		one.uint(clockTimestamp, c[1])
		snapshot.message(snapshotClock, one)
	}
	snapshot.uint(snapshotPrimary, clockBoottime)
	t.packet(at, packetClockSnapshot, snapshot)
}

func (t *Trace) describe(d *track) { t.packet(0, packetTrack, d.encode()) }

func (t *Trace) emit(h *happening) { t.packet(h.at, packetTrackEvent, h.encode()) }

// packet writes one packet.
func (t *Trace) packet(at uint64, field protowire.Number, inner message) {
	var p message
	if at != 0 {
		p.uint(packetTimestamp, at)
	}
	p.uint(packetSequence, 1)
	p.message(field, inner)
	t.write(p)
}

func (t *Trace) write(p message) {
	if t.err == nil {
		var whole message
		whole.message(tracePacket, p)
		_, t.err = t.out.Write(whole)
	}
}
