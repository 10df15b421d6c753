//go:build linux

package bus

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// server passes messages on, as a NATS server with one account. It has no streams: a client of the test answers for them.
type server struct {
	*testing.T
	url string

	mu    sync.Mutex
	peers map[*peer]bool
}

// peer is a client, and its subjects by the ids of its subscriptions.
type peer struct {
	net.Conn
	subjects map[string]string
}

// newServer serves with TLS if it has a configuration.
func newServer(t *testing.T, config *tls.Config) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{T: t, url: "nats://" + ln.Addr().String(), peers: map[*peer]bool{}}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go s.serve(conn, config)
		}
	}()
	return s
}

func (s *server) serve(conn net.Conn, config *tls.Config) {
	fmt.Fprintf(conn, `INFO {"server_id":"x","version":"2.15.0","proto":1,"max_payload":1048576,"headers":true,"tls_required":%t}`+"\r\n", config != nil)
	if config != nil {
		conn = tls.Server(conn, config)
	}
	defer conn.Close()
	p := &peer{conn, map[string]string{}}
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) == 0 {
			break
		}
		var body []byte
		if strings.HasSuffix(words[0], "PUB") {
			n, _ := strconv.Atoi(words[len(words)-1])
			body = make([]byte, n+2)
			io.ReadFull(r, body)
		}
		s.mu.Lock()
		switch s.peers[p] = true; words[0] {
		case "PING":
			io.WriteString(conn, "PONG\r\n")
		case "SUB":
			p.subjects[words[len(words)-1]] = words[1]
		case "UNSUB":
			delete(p.subjects, words[1])
		case "PUB":
			s.pass(p, "MSG", words[1], words[2:], len(words) > 3, body)
		case "HPUB":
			s.pass(p, "HMSG", words[1], words[2:], len(words) > 4, body)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	delete(s.peers, p)
	s.mu.Unlock()
}

// pass passes a message on. If nobody takes a request, that is the answer.
func (s *server) pass(from *peer, what, subject string, rest []string, request bool, body []byte) {
	taken := false
	for p := range s.peers {
		for id, pattern := range p.subjects {
			start, all := strings.CutSuffix(pattern, "*")
			if p != from && (pattern == subject || all && strings.HasPrefix(subject, start)) {
				fmt.Fprintf(p, "%s %s %s %s\r\n%s", what, subject, id, strings.Join(rest, " "), body)
				taken = true
			}
		}
	}
	if request && !taken {
		s.pass(nil, "HMSG", rest[0], []string{"16", "16"}, false, []byte("NATS/1.0 503\r\n\r\n\r\n"))
	}
}

func (s *server) bus(name string) *Bus {
	s.Helper()
	b, err := Reach(&service.LinkOptions{Servers: []string{s.url}, Name: name}, "test", zerolog.Nop())
	require.NoError(s, err)
	s.Cleanup(b.Close)
	return b
}

// host is a host, whose daemon answers with what a handler writes; nil: without a daemon.
func (s *server) host(name string, daemon http.HandlerFunc) *Host {
	s.Helper()
	socket := filepath.Join(s.TempDir(), "s")
	if daemon != nil {
		ln, err := net.Listen("unix", socket)
		require.NoError(s, err)
		d := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(api.HeaderAPI, "1")
			if r.Header.Get(api.HeaderRemote) != "1" {
				s.Errorf("%s as one of this host", r.URL)
			}
			daemon(w, r)
		})}
		go d.Serve(ln)
		s.Cleanup(func() { d.Close() })
	}
	b, h := s.bus(name), NewHost(socket, zerolog.Nop())
	h.All = true
	require.NoError(s, h.Serve(s.Context(), b, name), b.nc.Flush())
	return h
}

// client is a client without our code, which answers to a subject with what answer sends.
func (s *server) client(subject string, answer func(m *nats.Msg)) *nats.Conn {
	s.Helper()
	nc, err := nats.Connect(s.url)
	require.NoError(s, err)
	s.Cleanup(nc.Close)
	if answer != nil {
		_, err = nc.Subscribe(subject, answer)
		require.NoError(s, err, nc.Flush())
	}
	return nc
}

// send sends a message, and returns where the answers come.
func (s *server) send(nc *nats.Conn, subject string, body []byte) *nats.Subscription {
	s.Helper()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	require.NoError(s, err, nc.PublishRequest(subject, inbox, body))
	return answers
}

func (s *server) ask(nc *nats.Conn, host, path string) *nats.Subscription {
	question, _ := json.Marshal(service.Question{Path: path})
	return s.send(nc, service.AskSubject(host), question)
}

func (s *server) next(answers *nats.Subscription) *nats.Msg {
	s.Helper()
	m, err := answers.NextMsg(30 * time.Second)
	require.NoError(s, err)
	return m
}

// operator serves a proxy, and returns what connects to a host through it.
func (s *server) operator() func(host string) api.Client {
	s.Helper()
	socket := filepath.Join(s.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	b, done := s.bus("ann"), make(chan error)
	go func() { done <- b.Proxy(ctx, ln, "1.2.3") }()
	s.Cleanup(func() { cancel(); require.NoError(s, <-done) })
	return func(host string) api.Client {
		c, err := api.DialOver(ctx, host, func(context.Context) (net.Conn, error) {
			c, err := net.Dial("unix", socket)
			require.NoError(s, err)
			_, err = io.WriteString(c, host+"\n")
			return c, err
		})
		require.NoError(s, err)
		s.Cleanup(func() { c.Close() })
		return c
	}
}
