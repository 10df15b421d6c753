//go:build linux

package bus

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// lines is a log that is written and read at the same time.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestHostileServer: a server that announces messages of any size, or whose line does not end, loses the
// connection. The program continues, with one line about that, and takes no memory for it.
func TestHostileServer(t *testing.T) {
	was := Longest
	Longest = time.Hour // one connection
	defer func() { Longest = was }()
	for name, c := range map[string]struct {
		sends func(io.Writer)
		want  string
	}{
		"size that no memory has": {func(w io.Writer) { io.WriteString(w, "MSG lin.h.web1.cmd 1 9223372036854775000\r\nx") }, `message of \"9223372036854775000\" bytes`},
		"size of 4 GB":            {func(w io.Writer) { io.WriteString(w, "msg lin.h.web1.cmd 1 4000000000\r\nx") }, `message of \"4000000000\" bytes`},
		"size with headers":       {func(w io.Writer) { io.WriteString(w, "HMSG lin.h.web1.cmd 1 12 4000000000\r\nx") }, `message of \"4000000000\" bytes`},
		"no number":               {func(w io.Writer) { io.WriteString(w, "MSG lin.h.web1.cmd 1 -1\r\nx") }, `message of \"-1\" bytes`},
		"size after a message that does not end": {func(w io.Writer) {
			io.WriteString(w, "MSG lin.h.web1.cmd 1 0\r\nxxMSG lin.h.web1.cmd 1 100\r\nMSG lin.h.web1.cmd 1 4000000000\r\nx")
		}, "a message that does not end"},
		"endless line": {func(w io.Writer) {
			for _, err := io.WriteString(w, "MSG "); err == nil; {
				_, err = w.Write(bytes.Repeat([]byte("a"), 1<<20))
			}
		}, "a line of more than 32 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			url := hostile(t, func(w io.Writer) {
				io.WriteString(w, "PING\r\nMSG x 1 3\r\nabc\r\n")
				c.sends(w)
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			log := &lines{}
			b, err := Connect(&link.Options{Servers: []string{url}, Name: "web1"}, "test", zerolog.New(log))
			require.NoError(t, err)
			require.Eventually(t, "end of the connection", func() bool { return strings.Contains(log.String(), "the connection to the bus is ended") })
			b.Close()
			require.Contains(t, log.String(), "hostile", c.want)
			if n := strings.Count(log.String(), "hostile"); n != 1 {
				t.Errorf("%d lines: %s", n, log)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("took %d bytes", n)
			}
		})
	}
}

// hostile is the URL of a server that takes one connection, and then sends what it likes.
func hostile(t *testing.T, sends func(io.Writer)) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		if conn, err := ln.Accept(); err == nil {
			greet(conn, sends)
		}
	}()
	return "nats://" + ln.Addr().String()
}

// greet begins as a server does, and then sends what it likes.
func greet(conn net.Conn, sends func(io.Writer)) {
	defer conn.Close()
	io.WriteString(conn, `INFO {"server_id":"x","version":"2.15.0","proto":1,"max_payload":1048576,"headers":true}`+"\r\n")
	for r := bufio.NewReader(conn); ; {
		if line, err := r.ReadString('\n'); err != nil || strings.HasPrefix(line, "PING") {
			break
		}
	}
	io.WriteString(conn, "PONG\r\n")
	sends(conn)
	io.Copy(io.Discard, conn)
}

// TestServerError: a server may end a connection with any error. The program connects again, and says why.
func TestServerError(t *testing.T) {
	for name, text := range map[string]string{"plain": "-ERR 'Out of Order'", "tab": "-err\t'Out of Order'", "blank": "-ERR ' Permissions Violation'"} {
		t.Run(name, func(t *testing.T) { connectsAgain(t, text) })
	}
}

func connectsAgain(t *testing.T, text string) {
	was := Longest
	Longest = time.Millisecond
	defer func() { Longest = was }()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	connections := make(chan struct{}, 1000)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case connections <- struct{}{}:
			default:
			}
			go greet(conn, func(w io.Writer) { io.WriteString(w, text+"\r\n") })
		}
	}()
	log := &lines{}
	b, err := Connect(&link.Options{Servers: []string{"nats://" + ln.Addr().String()}, Name: "web1"}, "test", zerolog.New(log))
	require.NoError(t, err)
	defer b.Close()
	for range 3 {
		select {
		case <-connections:
		case <-time.After(10 * time.Second):
			t.Fatalf("it does not connect again: %s", log)
		}
	}
	require.Contains(t, log.String(), "the server ends the connection")
}

// TestManyErrors: a server that refuses all the time is a few lines.
func TestManyErrors(t *testing.T) {
	url := hostile(t, func(w io.Writer) {
		io.WriteString(w, strings.Repeat("-ERR 'Permissions Violation for Publish to \"x\"'\r\n", 1000)+"MSG lin.h.web1.cmd 1 1\r\nx\r\n")
	})
	log := &lines{}
	b, err := Connect(&link.Options{Servers: []string{url}, Name: "web1"}, "test", zerolog.New(log))
	require.NoError(t, err)
	defer b.Close()
	require.Eventually(t, "refusals", func() bool { return b.errors.Load() == 1000 })
	if n := strings.Count(log.String(), "the bus refuses"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// TestGuard: what a server may send passes, wherever it is cut.
func TestGuard(t *testing.T) {
	text := []byte("PING\r\nMSG a 1 5\r\nMSG x\r\nHMSG a 1 _INBOX.x 12 20\r\nNATS/1.0\r\n\r\n01234567\r\n+OK\r\n-ERR 'Permissions Violation for x'\r\nMSG a 1 0\r\n\r\nPONG\r\n")
	for cut := range text {
		var g guarded
		require.NoError(t, g.check(text[:cut]), g.check(text[cut:]))
		require.Equal(t, fmt.Sprint(g.left, len(g.line)), "0 0")
	}
}
