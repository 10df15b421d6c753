//go:build linux

package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestRead: a client gets through proxy, server and link what the daemon answers: documents, also large ones, and errors.
func TestRead(t *testing.T) {
	names := make([]api.Session, 20_000)
	for i := range names {
		names[i].ID = strings.Repeat("x", 60)
	}
	s := newServer(t, nil)
	s.host("web1", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/sessions":
			require.Equal(t, r.URL.RawQuery, "name=a+b&state=all")
			json.NewEncoder(w).Encode(api.Sessions{Items: names})
		case "/v1/sessions/none":
			e := api.NewError(api.CodeNotFound, "session none: not found", "")
			w.WriteHeader(e.Status())
			json.NewEncoder(w).Encode(api.ErrorDocument{Error: e})
		}
	})
	to := s.operator()
	c := to("web1")
	list, err := c.Sessions(t.Context(), "all", "a b")
	require.NoError(t, err)
	require.Equal(t, len(list.Items), len(names))
	_, err = c.Session(t.Context(), "none")
	require.Equal(t, err.Error(), "session none: not found")
	_, err = c.End(t.Context(), "build", api.EndRequest{})
	require.Contains(t, err.Error(), "only asked", "use --sign")
	_, err = to("web2").Status(t.Context())
	refused, ok := errors.AsType[*api.Error](err)
	if !ok || refused.Exit != api.ExitUnreachable || !strings.Contains(refused.Message, "no link of this host") {
		t.Errorf("a host without a link: %v", err)
	}
}

// TestHostileAnswers: what no link would answer is an error, and never a whole document.
func TestHostileAnswers(t *testing.T) {
	part := func(n, more, status, broken, body string) *nats.Msg {
		return &nats.Msg{Data: []byte(body), Header: nats.Header{
			service.PartHeader: {n}, service.MoreHeader: {more}, service.StatusHeader: {status}, service.BrokenHeader: {broken}, api.HeaderAPI: {"1"},
		}}
	}
	bomb := part("0", "", "200", "", "")
	bomb.Header.Set(service.EncodingHeader, service.Gzip)
	without := part("0", "", "200", "", `{}`)
	without.Header.Del(api.HeaderAPI)
	for name, all := range map[string][]*nats.Msg{
		"no head":           {{Data: []byte(`{}`)}},
		"no status":         {part("0", "", "", "", `{}`)},
		"bad status":        {part("0", "", "99", "", `{}`)},
		"starts late":       {part("1", "", "200", "", `{}`)},
		"repeats":           {part("0", "1", "200", "", `{"items":[`), part("0", "", "200", "", `]}`)},
		"skips":             {part("0", "1", "200", "", `{"items":[`), part("2", "", "", "", `]}`)},
		"breaks off":        {part("0", "1", "200", "", `{"items":[`), part("1", "", "", "x", "")},
		"breaks off at end": {part("0", "1", "200", "", `{"items":[]}`), part("1", "", "", "x", "")},
		"is broken":         {part("0", "", "200", "x", `{"items":[]}`)},
		"not gzip":          {bomb},
		"too large":         {part("0", "", "200", "", strings.Repeat(" ", service.PartBytes)+"{}")},
		"not a daemon":      {part("0", "", "200", "", "hello")},
		"without the API":   {without},
	} {
		s := newServer(t, nil)
		s.client(service.AskSubject("web1"), func(m *nats.Msg) {
			for _, answer := range all {
				m.RespondMsg(&nats.Msg{Data: answer.Data, Header: answer.Header})
			}
		})
		if list, err := s.operator()("web1").Sessions(t.Context(), "all", ""); err == nil {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// TestCommand: a command and the question for its receipt reach the daemon, which waits no longer than an answer may
// take; what is refused says why.
func TestCommand(t *testing.T) {
	command := aCommand()
	s := newServer(t, nil)
	s.host("web1", func(w http.ResponseWriter, r *http.Request) {
		d := api.CommandReply{Receipt: "begun"}
		if r.Method == http.MethodGet {
			require.Equal(t, r.URL.RequestURI(), "/v1/commands/"+command.ID+"?wait=4s")
			d.Receipt = "over"
		}
		json.NewEncoder(w).Encode(&d)
	})
	s.host("web2", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		json.NewEncoder(w).Encode(api.ErrorDocument{Error: api.NewError(api.CodeDenied, "command refused: it has expired", "")})
	})
	s.client(service.CommandSubject("web3"), func(m *nats.Msg) { m.Respond([]byte(`{}`)) })
	to := s.operator()
	signed := api.SignedCommand{Command: command.Text(), Signatures: []string{"s"}}
	d, err := to("web1").Command(t.Context(), signed)
	require.NoError(t, err)
	require.Equal(t, d.Receipt, "begun")
	d, err = to("web1").CommandReceipt(t.Context(), command.ID, time.Minute)
	require.NoError(t, err)
	require.Equal(t, d.Receipt, "over")
	for host, why := range map[string]string{"web2": "command refused: it has expired", "web3": "a part of the answer is missing", "web4": "nothing was sent"} {
		_, err := to(host).Command(t.Context(), signed)
		require.Contains(t, fmt.Sprint(err), why)
	}
}

// TestNaming: connections that name no host are closed, and others are served meanwhile.
func TestNaming(t *testing.T) {
	s := newServer(t, nil)
	s.host("web1", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") })
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	go s.bus("ann").Proxy(t.Context(), ln, "1")
	for _, line := range []string{"web1.>\n", strings.Repeat("a", 400), "a b\n", "web1\r\n", "\n"} {
		c, err := net.Dial("unix", socket)
		require.NoError(t, err)
		io.WriteString(c, line)
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: %d bytes", line, n)
		}
		c.Close()
	}
	c, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "web1\nGET /v1/status HTTP/1.0\r\n\r\n")
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(text), "\r\n\r\nhere")
}
