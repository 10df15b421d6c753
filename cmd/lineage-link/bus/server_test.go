//go:build linux

package bus

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
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

// TestServerError: a server may end a connection with any error. The program connects again, or says that it has to be started again.
func TestServerError(t *testing.T) {
	for name, text := range map[string]string{
		"plain": "-ERR 'Out of Order'\r\n", "tab": "-err\t'Out of Order'\r\n",
		"behind a carriage return": "MSG a\r1 800\n" + strings.Repeat("x", 80) + "\r\n-ERR 'Boom'\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			log := &lines{}
			b, err := Connect(&service.LinkOptions{Servers: []string{hostile(t, func(w io.Writer) { io.WriteString(w, text) })}, Name: "web1"}, "test", zerolog.New(log))
			require.NoError(t, err)
			defer b.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.Contains(t, fmt.Sprint(b.Wait(ctx), log), "the server ended the connection: nats: ")
		})
	}
}

// TestManyErrors: a server that refuses all the time is a few lines.
func TestManyErrors(t *testing.T) {
	url := hostile(t, func(w io.Writer) {
		io.WriteString(w, strings.Repeat("-ERR 'Permissions Violation for Publish to \"x\"'\r\n", 1000)+"-ERR 'Boom'\r\n")
	})
	log := &lines{}
	b, err := Connect(&service.LinkOptions{Servers: []string{url}, Name: "web1"}, "test", zerolog.New(log))
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.Contains(t, fmt.Sprint(b.Wait(ctx)), "the server ended the connection: ") // after all that
	require.Equal(t, strings.Count(log.String(), "the bus refuses"), 1)
}
