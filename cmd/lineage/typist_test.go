package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// typist is a user at a terminal: it types keys when it sees the expected text.
type typist struct {
	tty  *os.File
	over chan struct{}
	once sync.Once
	seen bytes.Buffer
}

// newTypist starts a user who calls sees, if that is not nil, with all that the terminal has shown,
// when it shows more.
func newTypist(t *testing.T, columns int, see, keys string, sees func(text string)) *typist {
	t.Helper()
	master, tty, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: uint16(columns)}))
	y := &typist{tty: tty, over: make(chan struct{})}
	go func() {
		defer close(y.over)
		b := make([]byte, 4096)
		for typed := see == ""; ; {
			n, err := master.Read(b)
			y.seen.Write(b[:n])
			if !typed && bytes.Contains(y.seen.Bytes(), []byte(see)) {
				typed = true
				master.WriteString(keys)
			}
			if sees != nil {
				sees(y.seen.String())
			}
			if err != nil || bytes.Contains(y.seen.Bytes(), []byte(lastWords)) {
				return
			}
		}
	}()
	t.Cleanup(func() { y.saw(); master.Close() })
	return y
}

const lastWords = "lngtest: the terminal is quiet now"

// saw is everything that was sent to the terminal. The tty stays open: after a panic
// its reader, in another goroutine, may still run.
func (y *typist) saw() string {
	y.once.Do(func() {
		y.tty.WriteString(lastWords)
		<-y.over
	})
	text, _, _ := strings.Cut(y.seen.String(), lastWords)
	return strings.ReplaceAll(text, "\r\n", "\n")
}
