//go:build linux

package stream_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

func TestEvents(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "web", GraceMS: daemontest.MS(0)})
	l := w.Events("user", "?session="+s.ID+"&snapshot=1")
	l.Want("recording")
	if ev := l.Next(); ev.Type != "session" || ev.Session != s.ID || ev.Subject.Name != "web" || ev.State != "active" || ev.Time != nil {
		t.Errorf("%+v", ev)
	}
	l.Want("process 100")
	w.K.Fork(100, 101, "lngtest-a")
	ev := l.Next()
	if ev.Type != "fork" || ev.Process.Creator.PID != 100 || ev.Process.Comm != "lngtest-a" || ev.Session != s.ID || ev.Seq == 0 || ev.Time == nil {
		t.Errorf("%+v", ev)
	}
	seq := ev.Seq
	w.K.Exec(101, "/bin/a", "a\x00-b\x00")
	ev = l.Next()
	if ev.Type != "exec" || ev.Process.Exe != "/bin/a" || len(ev.Process.Argv) != 2 || ev.Seq != seq+1 {
		t.Errorf("%+v", ev)
	}
	w.K.Fork(101, 102, "lngtest-b")
	w.K.Exit(101, 0x100)
	l.Want("fork 102")
	ev = l.Next()
	if ev.Type != "exit" || ev.Process.ExitCode == nil || *ev.Process.ExitCode != 1 || ev.Process.Comm != "lngtest-a" {
		t.Errorf("%+v", ev)
	}
	ev = l.Next()
	if ev.Type != "reparent" || ev.From.PID != 101 || ev.To.PID != 1 {
		t.Errorf("%+v", ev)
	}
	if ev = l.Next(); ev.Type != "reaped" || ev.Process.PID != 101 || ev.Process.Comm != "lngtest-a" {
		t.Errorf("%+v", ev)
	}
	w.K.Exit(100, 0)
	l.Want("exit 100")
	if ev = l.Next(); ev.Type != "session" || ev.State != "condemned" || ev.Subject.Name != "web" {
		t.Errorf("%+v", ev)
	}
	l.Want("exit 102")
	for {
		ev := l.Next()
		if ev == nil {
			t.Fatal("no end")
		}
		if ev.Kind == "end" {
			if ev.Reason != "session_over" {
				t.Errorf("%+v", ev)
			}
			break
		}
	}
	if ev := l.Next(); ev != nil {
		t.Errorf("after the end: %+v", ev)
	}
	t.Run("resumed", func(t *testing.T) {
		l := w.Events("user", fmt.Sprintf("?session=%s&from=%d&type=fork,exit", s.ID, seq))
		l.Want("fork 101", "fork 102", "exit 101", "exit 100", "exit 102", "end session_over")
	})
}

func TestEventsRefused(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	w.Do("else", "GET", "/v1/events?session="+s.ID, nil).Refused(api.CodeNotFound)
	w.Do("user", "GET", "/v1/events?session=nobody", nil).Refused(api.CodeNotFound)
	e := w.Do("user", "GET", "/v1/events?type=forks", nil).Refused(api.CodeBadRequest)
	if !strings.Contains(e.Hint, "fork") {
		t.Errorf("%+v", e)
	}
	w.Do("user", "GET", "/v1/events?from=x", nil).Refused(api.CodeBadRequest)
	w.Do("user", "GET", "/v1/events?snapshot=yes", nil).Refused(api.CodeBadRequest)
	w.Do("user", "GET", "/v1/events?sesion=x", nil).Refused(api.CodeBadRequest)
}

// TestPacked: eight readers at once get compressed lines, each with a megabyte of the daemon; others get them plain.
func TestPacked(t *testing.T) {
	w := daemontest.New(t)
	open := func() *http.Response {
		resp, err := w.Client("root").Get("http://lineage/v1/events?snapshot=1")
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, `"kind":"recording"`) {
			t.Errorf("%s, %v", line, err)
		}
		return resp
	}
	oldest := open()
	for n := range 8 {
		if resp := open(); resp.Uncompressed != (n < 7) || !oldest.Uncompressed {
			t.Errorf("%d: compressed %v", n, resp.Uncompressed)
		}
	}
	oldest.Body.Close()
	w.Until(func() bool { return open().Uncompressed })
}

func TestEventsLost(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{})
	l := w.Events("user", "")
	w.K.Lose(7)
	l.Want("lost ring 7")
}

func TestEventsStopping(t *testing.T) {
	w := daemontest.New(t)
	l := w.Events("root", "")
	go w.Stop()
	l.Want("end stopping")
}

func TestHeartbeat(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.Heartbeat = time.Millisecond })
	l := w.Events("root", "")
	defer daemontest.Bound(t, l.Close)()
	if !l.Scan.Scan() || !strings.HasPrefix(l.Scan.Text(), `{"kind":"heartbeat","time_ns":"`) {
		t.Errorf("got %q", l.Scan.Text())
	}
}

// TestReaderDropped: a reader that does not read is closed, and the daemon continues.
func TestReaderDropped(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.Stall = time.Second })
	w.Session("user", 100, api.NewSession{})
	c, err := w.Dial("root")
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
	w.Until(func() bool { return w.Service.Ring.Readers.Load() == 1 })
	long := strings.Repeat("a", 3000) + "\x00"
	w.Until(func() bool {
		for range 500 {
			w.K.Exec(100, "/bin/a", long)
		}
		return w.Service.Ring.Readers.Load() == 0
	})
	daemontest.Get[api.Version](w, "root", "/v1/version")
}

func TestReaderFellOff(t *testing.T) {
	w := daemontest.New(t, daemontest.WithoutHistory)
	w.Session("user", 100, api.NewSession{})
	// Events from the session's beginning that are still due come before the mark.
	w.K.Exec(100, "/bin/mark", "mark\x00")
	var from uint64
	w.Until(func() bool {
		buf := make([]history.RecentEvent, 64)
		n, first, _ := w.Service.Ring.Read(w.Service.Ring.Began(), buf)
		i := slices.IndexFunc(buf[:n], func(r history.RecentEvent) bool { return r.Image != nil && r.Image.Exe == "/bin/mark" })
		from = first + uint64(i) + 1
		return i >= 0
	})
	for range history.RingSize + 10 {
		w.K.Exec(100, "/bin/a", "a\x00")
	}
	w.Until(func() bool { return w.Service.Ring.End() >= from+history.RingSize+10 })
	l := w.Events("user", fmt.Sprintf("?from=%d", from))
	if ev := l.Next(); ev.Type != api.EventLost || ev.Where != "reader" || ev.Count != 10 || uint64(ev.LostFrom) != from || uint64(ev.LostTo) != from+9 {
		t.Errorf("%+v", ev)
	}
	l.Want("exec 100")
}
