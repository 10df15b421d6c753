package perfetto

import (
	"bufio"
	"cmp"
	"io"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// The first tracks; those of processes follow.
const (
	sessionTrack = iota + 1
	gapTrack
)

// Trace is the trace of one session while it is written. It is not safe for concurrent use.
// The first error of the writer is kept: Close gives it.
type Trace struct {
	out       *bufio.Writer
	separator string // before the next event
	err       error
	redact    func(argv []string) []string
	session   *api.Session

	begun   bool
	clocked bool
	offset  int64           // from boottime to the time of day
	now     uint64          // ns of boottime of the newest event
	members map[int]*member // by PID, until they are reaped
	live    int             // how many of members are alive
	calls   map[call]*span  // that are open
	spans   int             // how many calls there were
	tracks  int             // of processes, so far
	gap     *gap            // whose end is not known yet
	gapEnd  uint64          // the end of the last gap
	usage   usage           // as last reported
	ending  bool            // for another reason than the exit of the root
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
	t := &Trace{out: bufio.NewWriterSize(w, 64<<10), separator: "[\n", redact: redact, session: s, members: make(map[int]*member), calls: make(map[call]*span)}
	t.emit(event{Phase: metadata, Name: "process_name", Notes: notes{"name": clean(t.name(), maxName)}})
	t.describe(sessionTrack, t.name())
	return t
}

// name is what the session is called.
func (t *Trace) name() string { return "session " + cmp.Or(t.session.Name, t.session.ID) }

// Flush writes what is buffered.
func (t *Trace) Flush() error {
	t.err = cmp.Or(t.err, t.out.Flush())
	return t.err
}

// Close ends what is still open, and adds the receipt, if there is one.
func (t *Trace) Close(r *api.Report) error {
	t.fill(t.now)
	for _, m := range t.inOrder() {
		if !m.dead {
			t.end(m, t.now, notes{"end": "not seen"})
		}
	}
	t.closeCalls()
	if r != nil {
		t.receipt(r)
	}
	if t.begun {
		t.emit(event{Phase: sliceEnd, At: ns(t.now), Track: sessionTrack, Name: t.name()})
	}
	_, _ = t.out.WriteString("\n]\n") // Flush has the error
	return t.Flush()
}

// tick advances the time, and at the first event opens the session's slice.
func (t *Trace) tick(at uint64, wall *time.Time) {
	if wall != nil {
		t.offset, t.clocked = wall.UnixNano()-int64(at), true
	}
	if !t.begun {
		t.begun = true
		about := notes{"session": t.session.ID}
		if wall != nil {
			about.say("began", wall.UTC().Format(time.RFC3339Nano))
		}
		t.emit(event{Phase: sliceBegin, At: ns(at), Track: sessionTrack, Category: "session", Name: t.name(), Notes: about})
	}
	if t.gap != nil && t.gap.since == 0 && wall != nil && t.session.Started != nil {
		t.gap.since = uint64(max(t.session.Started.UnixNano()-t.offset, 1))
	}
	t.now = max(t.now, at)
}
