//go:build linux

package httpapi_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

func TestEnd(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "x", GraceMS: daemontest.MS(5000)})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Exec(101, "/bin/a", "a\x00-b\x00")
	w.K.Fork(100, 102, "lngtest-b")
	w.K.Exit(102, 0)
	w.K.Fork(101, 103, "lngtest-c")
	w.K.Edit(103, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	so := daemontest.Into[api.Report](w.Do("user", "GET", "/v1/sessions/x/report", nil), http.StatusAccepted)
	if so.Verdict != "" || so.State != "active" {
		t.Errorf("before: %+v", so)
	}
	w.Hold(func() { // the kernel's count is ahead of its events
		so = daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/x/end", api.EndRequest{}), http.StatusAccepted)
	})
	require.Equal(t, daemontest.Get[api.Session](w, "user", "/v1/sessions/x").Leftovers, 0)
	if so.Verdict != "" || so.State != "ending" || so.EndReason != "end" || so.EndedBy == nil || so.EndedBy.PID != daemontest.User || so.EndedBy.UID != 1000 {
		t.Errorf("so far: %+v", so)
	}
	if ended, all := display.Ended(so); ended != 2 || all != 3 || so.Left != 1 {
		t.Errorf("%d of %d ended: %+v", ended, all, so)
	}
	live := daemontest.Get[api.Session](w, "user", "/v1/sessions/x")
	if live.State != "ending" || live.Deadline == nil || live.EndReason != "end" || live.Live != 1 {
		t.Errorf("ending: %+v", live)
	}
	// A repeat with less grace; its caller is not the one that ended the session.
	r := w.End("root", s.ID)
	if r.Verdict != "clean" || r.State != "ended" || !r.ConfirmedEmpty || r.Left != 0 || r.EndedBy.PID != daemontest.User || r.Killed != 1 || r.Name != "x" ||
		len(daemontest.Get[api.Leaks](w, "root", "/v1/leaks").Items) != 0 {
		t.Errorf("receipt %+v", r)
	}
	if got := daemontest.Outcomes(r); len(got) != 3 || got[100] != "term" || got[101] != "term" || got[103] != "kill" {
		t.Errorf("outcomes %v", got)
	}
	if slices.ContainsFunc(r.Processes, func(o api.Outcome) bool { return o.Leftover }) {
		t.Errorf("left over, although the end began before their root was gone: %+v", r.Processes)
	}
	if i := slices.IndexFunc(r.Processes, func(o api.Outcome) bool { return o.PID == 101 }); !slices.Equal(r.Processes[i].Argv, []string{"a", "-b"}) {
		t.Errorf("argv %+v", r.Processes[i])
	}
	again := daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/x/end", api.EndRequest{}), http.StatusOK)
	if again.Verdict != "clean" || again.DurationMS != r.DurationMS {
		t.Errorf("again: %+v", again)
	}
	if all, _ := w.K.Sessions(); len(all) != 0 {
		t.Errorf("the kernel's record stays: %+v", all)
	}
	over := daemontest.Get[api.Session](w, "user", "/v1/sessions/x")
	if over.State != "ended" || over.Ended == nil || r.Ended == nil || !r.Ended.Equal(*over.Ended) || over.Live != 0 || over.Root.PID != 100 {
		t.Errorf("over: %+v", over)
	}
	tree := daemontest.Get[api.Tree](w, "user", "/v1/sessions/x/tree")
	require.Equal(t, len(tree.Nodes), 4)
}

// TestLockTakenLate: an end that was asked for names a lock that was taken since the last
// look, although the signal that it sends first releases the lock.
func TestLockTakenLate(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(60000)})
	dir := func(name string) string { return w.Host.Proc.Path(100, name) }
	err := errors.Join(os.WriteFile(filepath.Join(string(w.Host.Proc), "locks"), nil, 0o600),
		os.MkdirAll(dir("task/self"), 0o700), os.Mkdir(dir("fd"), 0o700), os.Mkdir(dir("fdinfo"), 0o700),
		os.WriteFile(dir("fdinfo/3"), []byte("flags:\t01\n"), 0o600), os.Symlink("/src/.git/index.lock", dir("fd/3")))
	require.NoError(t, err)
	w.K.Newborn = func() { os.Remove(dir("fd/3")) }
	daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{}), http.StatusAccepted)
	if r := w.Receipt(s.ID); len(r.LocksReleased) != 1 || r.LocksReleased[0].Path != "/src/.git/index.lock" {
		t.Errorf("%+v", r)
	}
}

func TestWaitRefused(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	for _, wait := range []string{"60.001s", "-1ns", "1", "soon"} {
		w.Do("user", "GET", "/v1/sessions/"+s.ID+"/report?wait="+wait, nil).Refused(api.CodeBadRequest)
	}
}

// TestStopAnswers: a daemon that stops answers those that wait for a receipt.
func TestStopAnswers(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	got := make(chan daemontest.Reply, 1)
	go func() {
		defer close(got)
		got <- w.Do("user", "GET", "/v1/sessions/"+s.ID+"/report?wait=1m", nil)
	}()
	w.Until(func() bool { // a request that has not been read when the daemon stops gets no answer
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return strings.Contains(stacks.String(), "httpapi.(*acting).getReport")
	})
	w.Halt()
	answer, ok := <-got
	if !ok {
		t.Fatal("no answer")
	}
	if r := daemontest.Into[api.Report](answer, http.StatusAccepted); r.State != "active" || r.Verdict != "" {
		t.Errorf("%+v", r)
	}
}

// TestRootExit: an end by the kernel has the same receipt, and names the leftovers.
func TestRootExit(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Fork(101, 102, "lngtest-b")
	w.K.Exit(101, 0)
	w.K.Advance(time.Millisecond)
	w.K.Exit(100, 0)
	r := w.Receipt(s.ID)
	if r.Verdict != "clean" || r.EndReason != "root_exit" || r.EndedBy != nil || len(r.Processes) != 1 {
		t.Errorf("%+v", r)
	}
	if p := r.Processes[0]; p.PID != 102 || !p.Leftover || p.Outcome != "kill" || p.Comm != "lngtest-b" {
		t.Errorf("%+v", p)
	}
}

func TestOnRootExitReport(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0), OnRootExit: "report"})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Exit(100, 0)
	d := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+s.ID)
	if d.State != "active" || d.Leftovers != 1 || d.Live != 1 || d.Orphans != 1 {
		t.Errorf("%+v", d)
	}
	w.K.Exit(101, 0)
	if r := w.Receipt(s.ID); r.Verdict != "clean" || len(r.Processes) != 1 || !r.Processes[0].Leftover {
		t.Errorf("%+v", r)
	}
	s = w.Session("user", 110, api.NewSession{OnRootExit: "report"})
	w.K.Fork(110, 111, "lngtest-a")
	w.K.Exit(110, 0)
	w.K.Advance(time.Millisecond)
	if r := w.End("user", s.ID); len(r.Processes) != 1 || !r.Processes[0].Leftover {
		t.Errorf("ended on request after its root was gone: %+v", r)
	}
}

// The exit of its root does not end it, that of its owner does.
func TestOnRootExitOwner(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0), OnRootExit: "owner"})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Exit(100, 0)
	if d := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+s.ID); d.State != "active" || d.Leftovers != 1 {
		t.Errorf("%+v", d)
	}
	w.K.Exit(daemontest.User, 0)
	if r := w.Receipt(s.ID); r.Verdict != "clean" || r.EndReason != "owner_exit" || daemontest.Outcomes(r)[101] != "kill" {
		t.Errorf("%+v", r)
	}
}

func TestEndRefused(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	for _, body := range []string{`{"grace_ms":-1}`, `{"grace_ms":3600000}`, `{"grace_ms":5,"now":true}`, `{"grase_ms":5}`} {
		w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", body).Refused(api.CodeBadRequest)
	}
	w.Do("else", "POST", "/v1/sessions/"+s.ID+"/end", `{"grace_ms":null}`).Refused(api.CodeNotFound)
	w.Do("user", "POST", "/v1/sessions/nobody/end", `{}`).Refused(api.CodeNotFound)
	w.Unsignalled()
}

// TestLostEmptyEvent: the kernel's event that a session is empty was lost; the verdict
// is final after the patience, whether a caller waits or not.
func TestLostEmptyEvent(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	id := w.ID(s.ID)
	w.Hold(func() {
		w.K.Exit(100, 0)
		_, err := w.K.Settle(id)
		require.NoError(t, err)
		w.K.DropEvents()
		w.K.Lose(3)
	})
	w.Service.Enforcer.Watch(id)
	w.Until(func() bool {
		w.K.Advance(time.Second)
		d := daemontest.Get[api.Session](w, "root", "/v1/sessions/"+s.ID)
		return d.State == "ended"
	})
	if r := w.Receipt(s.ID); r.Verdict != "clean" || !r.Truncated {
		t.Errorf("%+v", r)
	}
	if st := daemontest.Get[api.Status](w, "root", "/v1/status"); st.Lost != 3 {
		t.Errorf("lost %d", st.Lost)
	}
}

// TestRestart: a new daemon continues with the same sessions.
func TestRestart(t *testing.T) {
	w := daemontest.New(t)
	a := w.Session("user", 100, api.NewSession{Name: "a", GraceMS: daemontest.MS(0)})
	b := w.Session("user", 101, api.NewSession{Name: "b", GraceMS: daemontest.MS(0)})
	w.K.Fork(100, 110, "lngtest-x")
	w.Halt()
	w.Unsignalled()
	w.K.Fork(110, 111, "lngtest-gap")
	w.K.Exit(110, 0)
	w.K.Exit(101, 0) // the root of b dies while no daemon runs
	w.K.DropEvents()
	w.Start()
	d := daemontest.Get[api.Session](w, "user", "/v1/sessions/a")
	if d.ID != a.ID || d.UID != 1000 || d.State != "active" || d.Live != 2 || d.Root.PID != 100 {
		t.Errorf("%+v", d)
	}
	tree := daemontest.Get[api.Tree](w, "user", "/v1/sessions/a/tree")
	if !slices.ContainsFunc(tree.Nodes, func(n api.Node) bool { return n.PID == 111 && n.Session == a.ID }) {
		t.Errorf("%+v", tree.Nodes)
	}
	if r := w.Receipt(b.ID); r.Verdict != "clean" || r.EndReason != "root_exit" {
		t.Errorf("%+v", r)
	}
}

// TestRestartWithBacklog: the events of the gap are read late, and show the leftovers
// by their time.
func TestRestartWithBacklog(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	w.K.Fork(100, 101, "lngtest-before")
	w.K.Fork(100, 102, "lngtest-leftover")
	w.Halt()
	w.K.Exit(101, 0)
	w.K.Advance(time.Second)
	w.K.Exit(100, 0)
	w.Start()
	r := w.Receipt(s.ID)
	if len(r.Processes) != 1 || r.Processes[0].PID != 102 || !r.Processes[0].Leftover || r.Processes[0].Outcome != "kill" {
		t.Errorf("%+v", r)
	}
}

// The process that has to reap an end's zombies is named, a member or not.
func TestEndLeavesZombie(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	w.K.Edit(100, func(p *kerneltest.Proc) { p.Unreaped = true })
	w.K.Exit(100, 0)
	w.Until(func() bool { // its parent is given time to reap it
		w.K.Advance(100 * time.Millisecond)
		return w.Do("root", "GET", "/v1/sessions/"+s.ID+"/report", nil).Status == http.StatusOK
	})
	r := w.Receipt(s.ID)
	status, err := w.Host.Proc.Status(daemontest.User)
	require.NoError(t, err)
	if len(r.Zombies) != 1 || r.Zombies[0].Reaper == nil || r.Zombies[0].Reaper.PID != daemontest.User || r.Zombies[0].Reaper.Comm != status.Name {
		t.Errorf("zombies %+v, want them to be reaped by %q", r.Zombies[0].Reaper, status.Name)
	}
}

// TestEndBeforeHoldings: no signal waits for holdings that cannot be read.
func TestEndBeforeHoldings(t *testing.T) {
	for name, grace := range map[string]int64{"now": 0, "with a grace": 60000} {
		t.Run(name, func(t *testing.T) {
			w := daemontest.New(t, func(d *daemontest.Daemon) { d.Host.Limits.Before = 0 })
			s := w.Session("user", 100, api.NewSession{})
			fifo := filepath.Join(string(w.Host.Proc), "locks")
			require.NoError(t, unix.Mkfifo(fifo, 0o600))
			t.Cleanup(func() { // a process that opened it to read waits for a writer
				f, err := os.OpenFile(fifo, os.O_RDWR, 0)
				os.Remove(fifo)
				if err == nil {
					f.Close()
				}
			})
			done := make(chan daemontest.Reply, 1)
			go func() {
				done <- w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{GraceMS: &grace})
			}()
			daemontest.Into[api.Report](require.Soon(t, done, "the end waits for /proc/locks"), http.StatusAccepted)
			if got := w.K.Signals(); len(got) != 1 || got[0].Kill != (grace == 0) {
				t.Errorf("signals: %+v", got)
			}
		})
	}
}
