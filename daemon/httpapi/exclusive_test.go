//go:build linux

package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// a contender asks for a session of the name x over a new child, and waits for the answer.
type contender struct {
	net.Conn
	pid   uint32
	reply chan daemontest.Reply
}

func contend(w *daemontest.Daemon, who string, pid uint32, how string) *contender {
	w.Helper()
	caller := w.Caller(who)
	w.Add(pid, caller, w.K.Proc(caller).UID, "lngtest-root")
	conn, err := w.Dial(who)
	require.NoError(w, err)
	w.Cleanup(func() { conn.Close() })
	c := &contender{conn, pid, make(chan daemontest.Reply, 1)}
	body, err := json.Marshal(api.NewSession{Name: "x", Exclusive: how, Root: api.Ref{PID: int(pid)},
		GraceMS: daemontest.MS(0)})
	require.NoError(w, err)
	fmt.Fprintf(conn, "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	go func() {
		defer close(c.reply)
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			b, _ := io.ReadAll(resp.Body)
			c.reply <- daemontest.Reply{T: w.T, Status: resp.StatusCode, Header: resp.Header, Body: b}
		}
	}()
	return c
}

func (c *contender) answer(t *testing.T) daemontest.Reply {
	return require.Soon(t, c.reply, "no answer")
}

func (c *contender) begun(t *testing.T) *api.Session {
	t.Helper()
	return daemontest.Into[api.Session](c.answer(t), http.StatusCreated)
}

// queued waits until that many requests of the user's wait for the name x.
func queued(w *daemontest.Daemon, n int) {
	w.Helper()
	w.Until(func() bool {
		a := w.Do("user", "POST", "/v1/sessions", api.NewSession{Name: "x", Root: api.Ref{PID: 99}})
		return strings.HasSuffix(a.Refused(api.CodeBusyName).Message, fmt.Sprintf("; %d wait for it", n))
	})
}

// TestExclusive: one request after the other has the name, in order of arrival; one whose caller has gone has left
// the queue.
func TestExclusive(t *testing.T) {
	w := daemontest.New(t)
	w.Add(99, daemontest.User, 1000, "lngtest-probe")
	x := w.Session("user", 100, api.NewSession{Name: "x"})
	for _, bad := range []string{`{"exclusive":"fail"`, `{"name":"x","exclusive":"soon"`,
		`{"name":"x","exclusive":"wait","adopt":true`} {
		w.Do("user", "POST", "/v1/sessions", bad+`,"root":{"pid":100}}`).Refused(api.CodeBadRequest)
	}
	require.Contains(t, contend(w, "user", 101, "fail").answer(t).Refused(api.CodeBusyName).Message, x.ID)
	contend(w, "else", 102, "wait").begun(t)
	var all []*contender
	for n := range 4 {
		all = append(all, contend(w, "user", uint32(110+n), "wait"))
		queued(w, n+1)
	}
	all[1].Close()
	queued(w, 3)
	w.K.Exit(100, 0)
	for _, n := range []int{0, 2, 3} {
		all[n].begun(t)
		for _, later := range all[n+1:] {
			if len(later.reply) > 0 {
				t.Errorf("two have begun: %s", (<-later.reply).Body)
			}
		}
		w.K.Exit(all[n].pid, 0)
	}
	if w.K.Proc(111).Session != 0 {
		t.Error("the child of a caller that has gone is a session's root")
	}
}

// TestReplace: the session that has the name is ended, and another one replaces that in its turn; but not what a guard
// spares, and not where something is left.
func TestReplace(t *testing.T) {
	w := daemontest.New(t)
	w.Add(99, daemontest.User, 1000, "lngtest-probe")
	x := w.Session("user", 100, api.NewSession{Name: "x", GraceMS: daemontest.MS(60_000)})
	w.K.Edit(100, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	first := contend(w, "user", 101, "replace")
	w.Until(func() bool {
		return daemontest.Get[api.Session](w, "user", "/v1/sessions/x").State == api.StateEnding
	})
	second := contend(w, "user", 102, "replace")
	queued(w, 2)
	w.K.Exit(100, 0)
	a := first.begun(t)
	require.Equal(t, strings.Join(a.Replaced, " "), x.ID)
	b := second.begun(t)
	require.Equal(t, strings.Join(b.Replaced, " "), a.ID)
	if r := w.Receipt(a.ID); r.Verdict != api.VerdictClean || r.EndReason != "end" || r.EndedBy.PID != daemontest.User {
		t.Errorf("%+v", r)
	}
	w.Under(102) // the daemon's parent
	contend(w, "user", 103, "replace").answer(t).Refused(api.CodeGuarded)
	w.Under(daemontest.Shell)
	w.K.Edit(102, func(p *kerneltest.Proc) { p.Stubborn = true })
	last := contend(w, "user", 104, "replace")
	w.Until(func() bool { w.K.Advance(time.Minute); return len(last.reply) > 0 })
	require.Contains(t, last.answer(t).Refused(api.CodeBusyName).Message, b.ID+" (left: ")
}
