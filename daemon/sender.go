//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"
)

// keptBuffer is how much memory a stream keeps between two writes, in bytes.
const keptBuffer = 64 << 10

// sender sends the lines of a stream to one reader.
type sender struct {
	*server
	caller caller

	w    http.ResponseWriter
	rc   *http.ResponseController
	line bytes.Buffer
}

func (s *server) sender(w http.ResponseWriter, c caller) sender {
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
	s.line.Write(b)
	s.line.WriteByte('\n')
}

// flush sends what is encoded. A reader that takes nothing for the limit is
// dropped.
func (s *sender) flush() bool {
	if s.line.Len() == 0 {
		s.rc.Flush()
		return true
	}
	s.rc.SetWriteDeadline(time.Now().Add(s.limits.stall))
	_, err := s.w.Write(s.line.Bytes())
	if s.line.Reset(); s.line.Cap() > keptBuffer {
		s.line = bytes.Buffer{}
	}
	if err == nil {
		err = s.rc.Flush()
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.tally.dropped.Add(1)
		s.log.Warn().Uint32(keyPID, s.caller.id.PID).Uint32(keyUID, s.caller.uid).Msg("reader dropped: it took nothing")
	}
	return false // else it went by itself
}

// end sends the last line.
func (s *sender) end(doc any) {
	s.encode(doc)
	s.flush()
}
