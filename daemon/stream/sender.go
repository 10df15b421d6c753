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
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/daemon/access"
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
	Heartbeat time.Duration
	Stopping  <-chan struct{} // closed when streams have to end
	Clock     registry.Clock
	Tally     *Tally
	Log       zerolog.Logger
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

// To makes the sender of a reply.
func (l *Lines) To(w http.ResponseWriter, c access.Caller) *Sender {
	return &Sender{caller: c, tally: l.Tally, log: l.Log, w: w, rc: http.NewResponseController(w)}
}

// pack compresses what is sent.
func (s *Sender) pack() {
	s.w.Header().Set("Content-Encoding", "gzip")
	s.gz, _ = gzip.NewWriterLevel(s.w, gzip.BestSpeed) // the level is gzip's own
}

// Begin sends the header.
func (s *Sender) Begin() {
	s.w.Header().Set("Content-Type", "application/jsonl")
	s.w.WriteHeader(http.StatusOK)
}

// Encode gathers a document, one line.
func (s *Sender) Encode(doc any) {
	b, err := json.Marshal(doc)
	if err != nil {
		s.log.Error().Err(err).Msg("line not encoded")
		return
	}
	s.Append(b)
	s.out.WriteByte('\n')
}

// Append gathers an encoded line.
func (s *Sender) Append(text []byte) {
	if s.out == nil {
		s.out = buffers.Get().(*bytes.Buffer)
	}
	s.out.Write(text)
}

// Full reports whether it is time to write.
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
		s.log.Warn().Uint32(system.KeyPID, s.caller.ID.PID).Uint32(system.KeyUID, s.caller.UID).Msg("reader disconnected: it did not read")
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

// End sends the last line.
func (s *Sender) End(doc any) {
	s.Encode(doc)
	if s.Flush() && s.gz != nil && s.gz.Close() == nil {
		s.rc.Flush()
	}
}
