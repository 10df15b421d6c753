//go:build linux

package stream

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// WriteSize is how much a stream gathers before it writes, in bytes; one line may be
// longer. A larger buffer is not reused.
const WriteSize = 32 << 10

// buffers holds the buffers of streams that have nothing to write.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Tally counts what streams could not send.
type Tally struct {
	Dropped atomic.Uint64 // readers that did not read
	Missed  atomic.Uint64 // events that readers were too slow for
}

// Lines is what the streams of a daemon have in common.
type Lines struct {
	registry.Ground
	Access    *access.Access
	Find      *lookup.Finder
	Heartbeat time.Duration
	Stopping  <-chan struct{} // closed when streams have to end
	Tally     *Tally
}

// Sender sends the lines of a stream to one reader.
type Sender struct {
	caller access.Caller
	tally  *Tally
	log    zerolog.Logger

	w   http.ResponseWriter
	rc  *http.ResponseController
	out *bytes.Buffer // nil: nothing to write
	gz  *gzip.Writer  // nil: the reader gets plain lines
}

func (l *Lines) To(w http.ResponseWriter, c access.Caller) *Sender {
	return &Sender{caller: c, tally: l.Tally, log: l.Log, w: w, rc: http.NewResponseController(w)}
}

func (s *Sender) pack() {
	s.w.Header().Set("Content-Encoding", "gzip")
	s.gz, _ = gzip.NewWriterLevel(s.w, gzip.BestSpeed) // the level is gzip's own
}

func (s *Sender) Begin() {
	s.w.Header().Set("Content-Type", "application/jsonl")
	s.w.WriteHeader(http.StatusOK)
}

// Encode gathers a document, one line.
func (s *Sender) Encode(doc any) {
	b, err := json.Marshal(doc)
	s.Append(append(b, '\n'), err)
}

// Append gathers an encoded line, unless there was an error.
func (s *Sender) Append(text []byte, err error) {
	if err != nil {
		s.log.Error().Err(err).Msg("line not encoded")
		return
	}
	if s.out == nil {
		s.out = buffers.Get().(*bytes.Buffer)
	}
	s.out.Write(text)
}

func (s *Sender) Full() bool { return s.out != nil && s.out.Len() >= WriteSize }

// Flush sends what is encoded. The reply drops a reader that reads nothing for a while.
func (s *Sender) Flush() bool {
	if s.out == nil {
		s.rc.Flush()
		return true
	}
	err := s.write(s.out.Bytes())
	if s.out.Reset(); s.out.Cap() <= 2*WriteSize {
		buffers.Put(s.out)
	}
	s.out = nil
	if err == nil {
		err = s.rc.Flush()
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.tally.Dropped.Add(1)
		s.log.Warn().EmbedObject(s.caller).Msg("reader disconnected: it did not read")
	}
	return false // else it disconnected
}

func (s *Sender) write(b []byte) error {
	if s.gz == nil {
		_, err := s.w.Write(b)
		return err
	}
	_, err := s.gz.Write(b)
	return cmp.Or(err, s.gz.Flush())
}

func (s *Sender) End(doc any) {
	s.Encode(doc)
	if s.Flush() && s.gz != nil && s.gz.Close() == nil {
		s.rc.Flush()
	}
}

const (
	recentLines = 2048
	maxLine     = 8 << 10 // bytes; a longer line is not shared
	turnRecords = 256
)

// encodedEvents holds the last events as they are sent, so that each is encoded once
// and not by each of a thousand readers. The reader that needs a line first makes it;
// without readers none is made.
type encodedEvents struct {
	lines [access.Whole + 1][recentLines]atomic.Pointer[line] // by how much the reader sees of command lines
}

// line is one event on the wire.
type line struct {
	seq  uint64
	text []byte // ends with a newline; never changed
}

// line is an event, with the time of a clock, as a caller may see it. Callers differ only in what
// they see of command lines: of one user, else it is made for each of them.
func (l *encodedEvents) line(k document.Clock, r *history.RecentEvent, c access.Caller) ([]byte, error) {
	if r.Subject != nil || r.Was != nil && r.WasUID != r.UID {
		return encode(k, r, c)
	}
	sight := access.Whole
	if r.Image != nil || r.Was != nil {
		sight = c.Sees(r.UID)
	}
	slot := &l.lines[sight][r.Seq%recentLines]
	held := slot.Load()
	if held != nil && held.seq == r.Seq {
		return held.text, nil
	}
	text, err := encode(k, r, c)
	// A reader that is behind does not replace a line that others still need.
	if err == nil && len(text) <= maxLine && (held == nil || held.seq < r.Seq) {
		slot.CompareAndSwap(held, &line{r.Seq, text})
	}
	return text, err
}

func encode(k document.Clock, r *history.RecentEvent, c access.Caller) ([]byte, error) {
	ev := document.Event(k, r.Seq, &r.Event, c)
	if r.Subject != nil {
		ev.Subject = document.ReadableSession(r.Subject, c)
	}
	return ev.MarshalJSON()
}

// turns are taken by readers of the events before they read and encode, and returned
// before they write: however many readers there are, only this many at once use a
// processor for it, and the registry gets another one. Each turn has its own memory.
type turns chan []history.RecentEvent

func newTurns() turns {
	t := make(turns, max(1, runtime.GOMAXPROCS(0)/2))
	for range cap(t) {
		t <- make([]history.RecentEvent, turnRecords)
	}
	return t
}
