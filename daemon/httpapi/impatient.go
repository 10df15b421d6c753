//go:build linux

package httpapi

import (
	"net/http"
	"time"
)

// piece is how much of a reply a caller has to read in time, in bytes.
const piece = 64 << 10

// impatient drops a caller that reads nothing of its reply for a while. Otherwise the caller
// could keep the whole reply in memory for as long as it is connected, once for each
// connection.
type impatient struct {
	http.ResponseWriter
	stall time.Duration // 0: forever
	begun bool          // something of the reply was sent
}

// Unwrap is for [http.ResponseController].
func (w *impatient) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *impatient) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *impatient) Write(b []byte) (n int, err error) {
	w.begun = true
	if w.stall == 0 {
		return w.ResponseWriter.Write(b)
	}
	rc := http.NewResponseController(w.ResponseWriter)
	for len(b) > 0 && err == nil {
		// It holds for what net/http writes after the handler, too. The next reply sets another.
		_ = rc.SetWriteDeadline(time.Now().Add(w.stall)) // a test's recorder has none
		var sent int
		sent, err = w.ResponseWriter.Write(b[:min(len(b), piece)])
		n, b = n+sent, b[sent:]
	}
	return n, err
}
