//go:build linux

package stream_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// frames reads a watch; close it to disconnect.
type frames struct {
	*testing.T
	scan    *bufio.Scanner
	close   func()
	picture *apitest.Picture
}

func watch(w *daemontest.Daemon, who, query string) *frames {
	w.Helper()
	scan, close := w.Open(who, "/v1/watch"+query)
	scan.Buffer(nil, api.MaxLine)
	return &frames{w.T, scan, close, apitest.NewPicture()}
}

// next applies the next line; nil at the end of the stream.
func (l *frames) next() *api.Frame {
	l.Helper()
	defer daemontest.Bound(l.T, l.close)()
	if !l.scan.Scan() {
		return nil
	}
	f := new(api.Frame)
	if err := json.Unmarshal(l.scan.Bytes(), f); err != nil {
		l.Fatalf("%v: %.200s", err, l.scan.Bytes())
	}
	l.picture.Apply(f)
	return f
}

// until reads lines until the picture is right; the end of the stream does not count.
func (l *frames) until(what string, right func(*apitest.Picture) bool) {
	l.Helper()
	defer daemontest.Bound(l.T, l.close)()
	for !right(l.picture) {
		if f := l.next(); f == nil || f.Kind == "end" {
			l.Fatalf("the stream ended before %s: %s", what, l.picture)
		}
	}
}

func has(pids ...int) func(*apitest.Picture) bool {
	return func(p *apitest.Picture) bool { return slices.Equal(p.PIDs(), pids) }
}

func TestWatch(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	w.Session("else", 300, api.NewSession{})
	w.Look() // no exec of 300 was reported
	w.K.Exec(100, "/bin/agent", "agent\x00--token=x\x00")
	l := watch(w, "user", "")
	first := l.next()
	if first.Kind != "snapshot" || first.Status == nil || first.Status.Level != 4 || first.Status.Mode != "observe" || first.TimeNS == 0 || first.Status.ReadOnly {
		t.Errorf("%+v", first)
	}
	l.until("the root", has(100))
	if p := l.picture.Sessions[s.ID]; p.State != "active" || p.Live != 1 || p.Token != "" || len(l.picture.Sessions) != 1 {
		t.Errorf("%+v", l.picture.Sessions)
	}
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Fork(101, 102, "lngtest-b")
	w.K.Exit(101, 0x300)
	l.until("an orphan", func(p *apitest.Picture) bool {
		for _, x := range p.Processes {
			if x.Orphan && x.PID == 102 && x.Creator.PID == 101 && x.Session == s.ID {
				return has(100, 101, 102)(p)
			}
		}
		return false
	})
	l.until("its dead creator", func(p *apitest.Picture) bool {
		for _, x := range p.Processes {
			if x.PID == 101 && x.State == "exited" && x.ExitCode != nil && *x.ExitCode == 3 {
				return p.Status.Forks == 2 && p.Status.Live == 3 && p.Sessions[s.ID].Live == 2
			}
		}
		return false
	})
	all := watch(w, "root", "")
	all.until("both sessions", has(100, 101, 102, 300))
	member := watch(w, "102", "")
	member.until("its own session", has(100, 101, 102))
	if !member.picture.Status.ReadOnly {
		t.Error("a member may end something")
	}

	t.Run("what exited long ago leaves", func(t *testing.T) {
		w.K.Fork(100, 103, "lngtest-c")
		w.K.Exit(103, 0)
		l.until("it", has(100, 101, 102, 103))
		w.K.Advance(31 * time.Second)
		l.until("its leaving", has(100, 101, 102))
		all.until("its leaving", has(100, 101, 102, 300))
	})
	t.Run("a session that is over", func(t *testing.T) {
		daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
		l.until("its end", func(p *apitest.Picture) bool {
			d := p.Sessions[s.ID]
			return d.State == "ended" && d.EndReason == "end" && d.Ended != nil && p.Status.Live == 1
		})
		w.K.Advance(31 * time.Second)
		l.until("its leaving", func(p *apitest.Picture) bool { return len(p.Sessions) == 0 && len(p.Processes) == 0 })
	})
	t.Run("the daemon stops", func(t *testing.T) {
		go w.Stop()
		var last *api.Frame
		for f := all.next(); f != nil; f = all.next() {
			last = f
		}
		if last == nil || last.Kind != "end" || last.Reason != "stopping" {
			t.Errorf("%+v", last)
		}
	})
}

func TestWatchRefused(t *testing.T) {
	daemontest.New(t).Do("user", "GET", "/v1/watch?rate=1", nil).Refused(api.CodeBadRequest)
}

// TestSlowWatcherIsDropped: and before, it delays no other watcher, of which nothing is demanded in a second.
func TestSlowWatcherIsDropped(t *testing.T) {
	for _, stall := range []time.Duration{time.Second, time.Hour} {
		w := daemontest.New(t, func(w *daemontest.Daemon) { w.Host.Limits.Stall = stall })
		w.Session("user", 100, api.NewSession{})
		for pid := uint32(1000); pid < 3000; pid++ {
			w.K.Fork(100, pid, "lngtest-x")
			w.K.Exec(pid, "/bin/x", strings.Repeat("long\x00", 100))
		}
		w.K.AllRead()
		nc, err := w.Dial("user")
		require.NoError(t, err)
		defer nc.Close()
		fmt.Fprintf(nc, "GET /v1/watch HTTP/1.1\r\nHost: lineage\r\n\r\n")
		_, err = nc.Read(make([]byte, 1))
		require.NoError(t, err)
		if stall == time.Second {
			w.Until(func() bool { return w.Status().Counters["readers_dropped"] == 1 })
			continue
		}
		l := watch(w, "user", "")
		l.until("all of it", func(p *apitest.Picture) bool { return len(p.Processes) == 2001 })
		if d := daemontest.Get[api.Status](w, "root", "/v1/status"); d.Counters["readers_dropped"] != 0 {
			t.Errorf("%v", d.Counters)
		}
	}
}

// TestWatchAfterProcfs: a process that ran before the daemon has its command line from
// procfs.
func TestWatchAfterProcfs(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{})
	w.Look()
	l := watch(w, "user", "")
	l.until("the command line", func(p *apitest.Picture) bool {
		for _, x := range p.Processes {
			return x.PID == 100 && slices.Equal(x.Argv, []string{"lngtest-root", "--flag"}) && x.Exe == "/bin/lngtest-root"
		}
		return false
	})
}

// A refused program on which nothing promised depends is reported, but not as degraded:
// every reader of the tree would see that forever.
func TestLimitsAreNoDegradation(t *testing.T) {
	w := daemontest.New(t)
	limit, broken := "fentry/attach_pid: refused by this kernel", "programs loaded again: link_fork_birth is gone"
	w.K.Feature.Limits, w.K.Feature.Degraded = []string{limit}, []string{broken}
	s := w.Session("user", 100, api.NewSession{})
	st := daemontest.Get[api.Status](w, "user", "/v1/status")
	if !slices.Equal(st.Limits, []string{limit}) || !slices.Equal(st.Degraded, []string{broken}) {
		t.Errorf("limits %q, degraded %q", st.Limits, st.Degraded)
	}
	if first := watch(w, "user", "").next(); !slices.Equal(first.Status.Degraded, []string{broken}) {
		t.Errorf("the tree is degraded by %q", first.Status.Degraded)
	}
	if got := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+s.ID); len(got.Degraded) != 0 {
		t.Errorf("the session is degraded by %q", got.Degraded)
	}
}
