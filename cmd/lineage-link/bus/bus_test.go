//go:build linux

package bus

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestKey: a key that others may read is refused, and an error about one does not show it.
func TestKey(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed")
	connect := func(mode os.FileMode, text string) string {
		require.NoError(t, os.WriteFile(seed, []byte(text), 0o600), os.Chmod(seed, mode))
		b, err := Connect(&service.LinkOptions{Servers: []string{"nats://127.0.0.1:1"}, Name: "web1", Nkey: seed}, "test", zerolog.Nop())
		if err != nil {
			return err.Error()
		}
		b.Close()
		return ""
	}
	text := func(create func() (nkeys.KeyPair, error)) string {
		pair, err := create()
		require.NoError(t, err)
		b, err := pair.Seed()
		require.NoError(t, err)
		return string(b)
	}
	user := text(nkeys.CreateUser)
	require.Equal(t, connect(0o600, user), "")
	require.Equal(t, connect(0o400, user), "")
	if os.Getuid() == 0 {
		require.Equal(t, connect(0o440, user), "") // as the service manager gives it: of root's group
		require.NoError(t, os.Chown(seed, 0, 1000))
	}
	for _, mode := range []os.FileMode{0o644, 0o604, 0o620, 0o602, 0o640} {
		require.Contains(t, connect(mode, user), "others may read the key; chmod 600")
	}
	for _, text := range []string{"", "SUAxxxx", "secret", text(nkeys.CreateAccount)} {
		if got := connect(0o600, text); !strings.HasSuffix(got, ": no seed of a user's nkey") || strings.Contains(got, "secret") {
			t.Errorf("%q: %s", text, got)
		}
	}
	if _, err := Connect(&service.LinkOptions{Servers: []string{"nats://127.0.0.1:1"}, Creds: seed + "x"}, "test", zerolog.Nop()); err == nil {
		t.Error("credentials that are not there")
	}
}

// TestTLS: a server needs a certificate for its name, of an authority that is trusted.
func TestTLS(t *testing.T) {
	from := httptest.NewTLSServer(nil) // whose certificate is for 127.0.0.1
	defer from.Close()
	ca := filepath.Join(t.TempDir(), "ca")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: from.Certificate().Raw}), 0o600))
	s := newServer(t, &tls.Config{Certificates: from.TLS.Certificates})
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "nats://"), ":")
	for name, c := range map[string]struct{ host, ca, why string }{
		"good":       {"127.0.0.1", ca, ""},
		"other name": {"localhost", ca, "not localhost"},
		"no trust":   {"127.0.0.1", "", "unknown authority"},
	} {
		b, err := Reach(&service.LinkOptions{Servers: []string{"tls://" + c.host + ":" + port}, Name: "ann", CA: c.ca}, "test", zerolog.Nop())
		if err == nil {
			b.Close()
		}
		if (err == nil) != (c.why == "") || err != nil && (!errors.Is(err, ErrDown) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStore: a message is stored when its stream says so, and says what the stream needs to know of it.
func TestStore(t *testing.T) {
	s := newServer(t, nil)
	var ack string
	s.client("lin.h.web1.receipt", func(m *nats.Msg) {
		for key, want := range map[string]string{
			nats.ExpectedStreamHdr: "S", nats.MsgIdHdr: "web1/1", nats.ExpectedLastSubjSeqHdr: "6", "Nats-TTL": "1m30s", service.EncodingHeader: service.Gzip,
		} {
			if got := m.Header.Get(key); got != want {
				t.Errorf("%s: %q", key, got)
			}
		}
		m.Respond([]byte(ack))
	})
	b := s.bus("web1")
	m := &Message{Subject: "lin.h.web1.receipt", Body: []byte("x"), Encoding: service.Gzip, ID: "web1/1", TTL: 90 * time.Second, After: &Place{Seq: 6}}
	for _, c := range [][2]string{
		{`{"stream":"S","seq":7}`, ""},
		{`{"stream":"other","seq":7}`, `stored in stream "other"`},
		{`{"seq":7}`, "invalid jetstream publish response"},
		{`{"stream":"S","seq":7,"duplicate":true}`, "has a message with this id already"},
		{`{"stream":"S","seq":7,"error":{"description":"wrong last sequence"}}`, `the stream refuses: "wrong last sequence"`},
		{`+OK`, "invalid jetstream publish response"},
	} {
		ack = c[0]
		if err := b.Store(t.Context(), "S", m); (err == nil) != (c[1] == "") || err != nil && !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", ack, err)
		}
	}
	m.Subject = "nobody"
	require.Contains(t, fmt.Sprint(b.Store(t.Context(), "S", m)), "no response from stream")
	b.nc.Close()
	require.ErrorIs(t, b.Store(t.Context(), "S", m), ErrDown, "without a connection")
}

// TestLast: what a stream has last, if it says so.
func TestLast(t *testing.T) {
	s := newServer(t, nil)
	var head nats.Header
	s.client("$JS.API.DIRECT.GET.S.x", func(m *nats.Msg) { m.RespondMsg(&nats.Msg{Header: head}) })
	b := s.bus("web1")
	stored := nats.Header{"Nats-Stream": {"S"}, "Nats-Subject": {"x"}, "Nats-Time-Stamp": {"2026-11-29T00:00:00Z"}, nats.MsgIdHdr: {"web1/1"}}
	newest := maps.Clone(stored)
	newest["Nats-Sequence"] = []string{"7"}
	for want, answer := range map[string]nats.Header{
		"{web1/1 7} <nil>": newest,
		"{ 0} <nil>":       {"Status": {"404"}},
		`the stream S does not answer: "nats: Bad Request"`:             {"Status": {"408"}, "Description": {"Bad Request"}, "Nats-Sequence": {"7"}},
		`the stream S does not answer: "nats: missing sequence header"`: stored,
	} {
		head = answer
		got, err := b.Last(t.Context(), "S", "x")
		text := fmt.Sprint(err)
		if err == nil {
			text = fmt.Sprint(*got, err)
		}
		require.Equal(t, text, want)
	}
}

// hostsOf has a stream of hosts, of which each request gets one.
func hostsOf(s *server, names ...string) {
	s.client("$JS.API.DIRECT.GET."+service.HostsStream, func(m *nats.Msg) {
		var q struct{ Seq int }
		json.Unmarshal(m.Data, &q)
		if q.Seq <= len(names) {
			m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Sequence": {strconv.Itoa(q.Seq)}, "Nats-Subject": {service.HostSubject(names[q.Seq-1])}}})
		}
		m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"204"}, "Nats-Num-Pending": {strconv.Itoa(max(0, len(names)-q.Seq))}}})
	})
}

// TestHosts: all that are there, from several answers; and not one from anything but a stream.
func TestHosts(t *testing.T) {
	s := newServer(t, nil)
	hostsOf(s, "web1", "web2", "web.3", "web4")
	names, err := s.bus("ann").Hosts(t.Context())
	if err != nil || !slices.Equal(names, []string{"web1", "web2", "web4"}) {
		t.Errorf("%v, %v", names, err)
	}
	for why, head := range map[string]nats.Header{
		"something else":           {"Nats-Sequence": {"0"}, "Nats-Subject": {service.HostSubject("web1")}},
		"the stream answers 408":   {"Status": {"408"}},
		"something else than":      {"Status": {"204"}, "Nats-Num-Pending": {"1"}},
		"the bus has no stream of": nil,
	} {
		s := newServer(t, nil)
		if head != nil {
			s.client("$JS.API.DIRECT.GET."+service.HostsStream, func(m *nats.Msg) { m.RespondMsg(&nats.Msg{Header: head}) })
		}
		if names, err := s.bus("ann").Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, %v, want %s", names, err, why)
		}
	}
}

// TestAsk: nobody guesses where answers go.
func TestAsk(t *testing.T) {
	s := newServer(t, nil)
	b := s.bus("ann")
	replies := make(chan string, 1)
	s.client("x", func(m *nats.Msg) {
		replies <- m.Reply
		m.Respond(nil)
	})
	require.NoError(t, b.Ask(t.Context(), "x", nil, func(*Message) (bool, error) { return false, nil }))
	if to := <-replies; !strings.HasPrefix(to, "_INBOX.ann.") || len(to) < len("_INBOX.ann.")+26 {
		t.Error(to)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Ask(ctx, "x", nil, nil), context.Canceled, "a question that nobody waits for")
}

// TestDropped: of messages that come faster than they are handled the rest is dropped, and counted.
func TestDropped(t *testing.T) {
	s := newServer(t, nil)
	hold := make(chan struct{})
	b := s.bus("web1")
	require.NoError(t, b.Subscribe("x", func(*Message) { <-hold }), b.nc.Flush())
	defer close(hold)
	ann := s.client("", nil)
	for range maxPending + 10 {
		require.NoError(t, ann.Publish("x", nil))
	}
	require.Eventually(t, "dropped messages", func() bool { return b.dropped.Load() > 0 })
}
