//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/logging"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// writeSize is how much a stream gathers before it writes, in bytes; one line
// may be longer. Beyond it a buffer is not used again.
const writeSize = 32 << 10

// buffers are of streams that have nothing to write.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// sender sends the lines of a stream to one reader.
type sender struct {
	*server
	caller access.Caller

	w   http.ResponseWriter
	rc  *http.ResponseController
	out *bytes.Buffer // nil: nothing to write
}

func (s *server) sender(w http.ResponseWriter, c access.Caller) sender {
	return sender{server: s, caller: c, w: w, rc: http.NewResponseController(w)}
}

func (s *sender) begin() {
	s.w.Header().Set("Content-Type", "application/jsonl")
	s.w.WriteHeader(http.StatusOK)
}

func (s *sender) encode(doc any) {
	b, err := json.Marshal(doc)
	if err != nil {
		s.log.Error().Err(err).Msg("line not encoded")
		return
	}
	s.append(b)
	s.out.WriteByte('\n')
}

func (s *sender) append(text []byte) {
	if s.out == nil {
		s.out = buffers.Get().(*bytes.Buffer)
	}
	s.out.Write(text)
}

// full reports that it is time to write.
func (s *sender) full() bool { return s.out != nil && s.out.Len() >= writeSize }

// flush sends what is encoded. A reader that takes nothing for the limit is
// dropped.
func (s *sender) flush() bool {
	if s.out == nil {
		s.rc.Flush()
		return true
	}
	s.rc.SetWriteDeadline(time.Now().Add(s.limits.stall))
	_, err := s.w.Write(s.out.Bytes())
	if s.out.Reset(); s.out.Cap() <= 2*writeSize {
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
		s.tally.dropped.Add(1)
		s.log.Warn().Uint32(logging.KeyPID, s.caller.ID.PID).Uint32(logging.KeyUID, s.caller.UID).Msg("reader disconnected: it did not read")
	}
	return false // else it went by itself
}

// end sends the last line.
func (s *sender) end(doc any) {
	s.encode(doc)
	s.flush()
}
