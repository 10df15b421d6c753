//go:build linux

package daemon

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

func outcomes(r *api.Report) map[int]api.OutcomeKind {
	all := make(map[int]api.OutcomeKind)
	for _, o := range r.Processes {
		all[o.PID] = o.Outcome
	}
	return all
}

func TestEnd(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{Name: "x", GraceMS: ms(5000)})
	w.k.Fork(100, 101, "lngtest-a")
	w.k.Exec(101, "/bin/a", "a\x00-b\x00")
	w.k.Fork(100, 102, "lngtest-b")
	w.k.Exit(102, 0)
	w.k.Fork(101, 103, "lngtest-c")
	w.k.Edit(103, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	so := into[api.Report](w.do("user", "GET", "/v1/sessions/x/report", nil), http.StatusAccepted)
	if so.Verdict != "" || so.State != "active" {
		t.Errorf("before: %+v", so)
	}
	so = into[api.Report](w.do("user", "POST", "/v1/sessions/x/end", api.EndRequest{}), http.StatusAccepted)
	if so.Verdict != "" || so.State != "ending" || so.EndReason != "end" || so.EndedBy == nil || so.EndedBy.PID != userPID || so.EndedBy.UID != 1000 {
		t.Errorf("so far: %+v", so)
	}
	live := into[api.Session](w.do("user", "GET", "/v1/sessions/x", nil), http.StatusOK)
	if live.State != "ending" || live.Deadline == nil || live.EndReason != "end" || live.Live != 1 {
		t.Errorf("ending: %+v", live)
	}
	// A repeat with less grace; its caller is not the one that ended the session.
	into[api.Report](w.do("root", "POST", "/v1/sessions/x/end", api.EndRequest{Now: true}), http.StatusAccepted)
	r := w.receipt(s.ID)
	if r.Verdict != "clean" || r.State != "ended" || !r.ConfirmedEmpty || r.Left != 0 || r.EndedBy.PID != userPID || r.Killed != 1 || r.Name != "x" {
		t.Errorf("receipt %+v", r)
	}
	if got := outcomes(r); len(got) != 3 || got[100] != "term" || got[101] != "term" || got[103] != "kill" {
		t.Errorf("outcomes %v", got)
	}
	if i := slices.IndexFunc(r.Processes, func(o api.Outcome) bool { return o.PID == 101 }); !slices.Equal(r.Processes[i].Argv, []string{"a", "-b"}) {
		t.Errorf("argv %+v", r.Processes[i])
	}
	again := into[api.Report](w.do("user", "POST", "/v1/sessions/x/end", api.EndRequest{}), http.StatusOK)
	if again.Verdict != "clean" || again.DurationMS != r.DurationMS {
		t.Errorf("again: %+v", again)
	}
	if all, _ := w.k.Sessions(); len(all) != 0 {
		t.Errorf("the kernel's record stays: %+v", all)
	}
	over := into[api.Session](w.do("user", "GET", "/v1/sessions/x", nil), http.StatusOK)
	if over.State != "ended" || over.Ended == nil || r.Ended == nil || !r.Ended.Equal(*over.Ended) || over.Live != 0 || over.Root.PID != 100 {
		t.Errorf("over: %+v", over)
	}
	tree := into[api.Tree](w.do("user", "GET", "/v1/sessions/x/tree", nil), http.StatusOK)
	if len(tree.Nodes) != 4 {
		t.Errorf("%d nodes are remembered", len(tree.Nodes))
	}
}

// TestLockTakenLate: an end that was asked for names a lock that was taken since the last
// look, although the signal that it sends first releases the lock.
func TestLockTakenLate(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(60000)})
	dir := func(name string) string { return w.h.proc.Path(100, name) }
	err := errors.Join(os.WriteFile(filepath.Join(string(w.h.proc), "locks"), nil, 0o600),
		os.MkdirAll(dir("task/self"), 0o700), os.Mkdir(dir("fd"), 0o700), os.Mkdir(dir("fdinfo"), 0o700),
		os.WriteFile(dir("fdinfo/3"), []byte("flags:\t01\n"), 0o600), os.Symlink("/src/.git/index.lock", dir("fd/3")))
	if err != nil {
		t.Fatal(err)
	}
	w.k.Newborn = func() { os.Remove(dir("fd/3")) }
	into[api.Report](w.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{}), http.StatusAccepted)
	if r := w.receipt(s.ID); len(r.LocksReleased) != 1 || r.LocksReleased[0].Path != "/src/.git/index.lock" {
		t.Errorf("%+v", r)
	}
}

// TestStopAnswers: a daemon that stops answers those that wait for a receipt.
func TestStopAnswers(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{})
	w.until(func() bool { return w.s.access.Open() == 0 })
	got := make(chan answered, 1)
	go func() {
		defer close(got)
		got <- w.do("user", "GET", "/v1/sessions/"+s.ID+"/report?wait=1m", nil)
	}()
	w.until(func() bool { return w.s.access.Open() == 1 })
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	answer, ok := <-got
	if !ok {
		t.Fatal("no answer")
	}
	if r := into[api.Report](answer, http.StatusAccepted); r.State != "active" || r.Verdict != "" {
		t.Errorf("%+v", r)
	}
}

// TestRootExit: an end by the kernel has the same receipt, and names the leftovers.
func TestRootExit(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	w.k.Fork(100, 101, "lngtest-a")
	w.k.Fork(101, 102, "lngtest-b")
	w.k.Exit(101, 0)
	w.k.Advance(time.Millisecond)
	w.k.Exit(100, 0)
	r := w.receipt(s.ID)
	if r.Verdict != "clean" || r.EndReason != "root_exit" || r.EndedBy != nil || len(r.Processes) != 1 {
		t.Errorf("%+v", r)
	}
	if p := r.Processes[0]; p.PID != 102 || !p.Leftover || p.Outcome != "kill" || p.Comm != "lngtest-b" {
		t.Errorf("%+v", p)
	}
}

func TestOwnerExit(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	w.k.Exit(userPID, 0)
	if r := w.receipt(s.ID); r.Verdict != "clean" || r.EndReason != "owner_exit" || outcomes(r)[100] != "kill" {
		t.Errorf("%+v", r)
	}
}

func TestOnRootExitReport(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0), OnRootExit: "report"})
	w.k.Fork(100, 101, "lngtest-a")
	w.k.Exit(100, 0)
	d := into[api.Session](w.do("user", "GET", "/v1/sessions/"+s.ID, nil), http.StatusOK)
	if d.State != "active" || d.Leftovers != 1 || d.Live != 1 || d.Orphans != 1 {
		t.Errorf("%+v", d)
	}
	w.k.Exit(101, 0)
	if r := w.receipt(s.ID); r.Verdict != "clean" || len(r.Processes) != 1 || !r.Processes[0].Leftover {
		t.Errorf("%+v", r)
	}
}

func TestLeft(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	w.k.Fork(100, 101, "lngtest-stuck")
	w.k.Edit(101, func(p *kerneltest.Proc) { p.Stubborn = true })
	into[api.Report](w.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{}), http.StatusAccepted)
	w.until(func() bool { // the first look starts the limit, a later one finds it over
		w.k.Advance(6 * time.Second)
		w.s.enforcer.Watch(w.id(s.ID))
		return w.do("user", "GET", "/v1/sessions/"+s.ID+"/report", nil).status == http.StatusOK
	})
	r := w.receipt(s.ID)
	if r.Verdict != "left" || r.Left != 1 || r.State != "condemned" || outcomes(r)[101] != "left" || outcomes(r)[100] != "kill" {
		t.Errorf("%+v", r)
	}
	w.k.Edit(101, func(p *kerneltest.Proc) { p.Stubborn = false })
	w.k.Advance(2 * time.Second)
	w.s.enforcer.Watch(w.id(s.ID))
	w.until(func() bool { return w.receipt(s.ID).Verdict == "clean" })
}

func TestEndRefused(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{})
	end := "/v1/sessions/" + s.ID + "/end"
	w.k.Fork(100, 101, "lngtest-agent")
	for name, c := range map[string]struct{ who, body, code string }{
		"another user":     {"else", `{}`, api.CodeDenied},
		"a reader":         {"reader", `{}`, api.CodeDenied},
		"a member":         {"101", `{}`, api.CodeDenied},
		"negative grace":   {"user", `{"grace_ms":-1}`, api.CodeBadRequest},
		"long grace":       {"user", `{"grace_ms":3600000}`, api.CodeBadRequest},
		"both":             {"user", `{"grace_ms":5,"now":true}`, api.CodeBadRequest},
		"unknown field":    {"user", `{"grase_ms":5}`, api.CodeBadRequest},
		"null is no grace": {"else", `{"grace_ms":null}`, api.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) { w.do(c.who, "POST", end, c.body).refused(c.code) })
	}
	w.do("user", "POST", "/v1/sessions/nobody/end", `{}`).refused(api.CodeNotFound)
	t.Run("guarded", func(t *testing.T) {
		id := w.id(s.ID)
		w.k.Edit(shell, func(p *kerneltest.Proc) { p.Session = id })
		defer w.k.Edit(shell, func(p *kerneltest.Proc) { p.Session = 0 })
		e := w.do("user", "POST", end, `{}`).refused(api.CodeGuarded)
		if e.Exit != api.ExitDenied {
			t.Errorf("%+v", e)
		}
	})
	t.Run("the kernel cannot be asked", func(t *testing.T) {
		w.k.Fail("Snapshot", errors.New("broken"))
		defer w.k.Fail("Snapshot", nil)
		w.do("user", "POST", end, `{}`).refused(api.CodeInternal)
	})
	if len(w.k.Signals()) != 0 {
		t.Errorf("signals were sent: %v", w.k.Signals())
	}
	if info, err := w.k.Session(w.id(s.ID)); err != nil || info.State != tracer.StateActive {
		t.Errorf("%+v %v", info, err)
	}
}

// TestNestedEnd: a member may end sessions nested in its own, and nothing more.
func TestNestedEnd(t *testing.T) {
	w := newWorld(t)
	outer := w.session("user", 100, api.NewSession{})
	w.k.Fork(100, 101, "lngtest-agent")
	w.proc(101, 100, 1000, "lngtest-agent")
	w.k.Fork(101, 102, "lngtest-sub")
	w.proc(102, 101, 1000, "lngtest-sub")
	inner := into[api.Session](w.do("101", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 102}, GraceMS: ms(0)}), http.StatusCreated)
	w.k.Fork(102, 103, "lngtest-leaf")
	d := into[api.Session](w.do("101", "GET", "/v1/sessions/"+outer.ID, nil), http.StatusOK)
	if d.Live != 4 {
		t.Errorf("live %d", d.Live)
	}
	w.do("103", "GET", "/v1/sessions/"+outer.ID, nil).refused(api.CodeDenied)
	w.do("103", "POST", "/v1/sessions/"+inner.ID+"/end", nil).refused(api.CodeDenied)
	into[api.Report](w.do("101", "POST", "/v1/sessions/"+inner.ID+"/end", nil), http.StatusAccepted)
	if r := w.receipt(inner.ID); r.Verdict != "clean" || len(r.Processes) != 2 {
		t.Errorf("%+v", r)
	}
	if w.k.Proc(101) == nil || w.k.Proc(100) == nil {
		t.Error("the outer session was ended too")
	}
}

// TestLostEmptyEvent: the kernel's event that a session is empty was lost; the verdict
// is final after the patience, whether a caller waits or not.
func TestLostEmptyEvent(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	id := w.id(s.ID)
	w.hold(func() {
		w.k.Exit(100, 0)
		if _, err := w.k.Settle(id); err != nil {
			t.Fatal(err)
		}
		w.k.DropEvents()
		w.k.Lose(3)
	})
	w.s.enforcer.Watch(id)
	w.until(func() bool {
		w.k.Advance(time.Second)
		d := into[api.Session](w.do("root", "GET", "/v1/sessions/"+s.ID, nil), http.StatusOK)
		return d.State == "ended"
	})
	if r := w.receipt(s.ID); r.Verdict != "clean" || !r.Truncated {
		t.Errorf("%+v", r)
	}
	if st := into[api.Status](w.do("root", "GET", "/v1/status", nil), http.StatusOK); st.Lost != 3 {
		t.Errorf("lost %d", st.Lost)
	}
}

// TestRestart: a new daemon continues with the same sessions.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	a := w.session("user", 100, api.NewSession{Name: "a", GraceMS: ms(0)})
	b := w.session("user", 101, api.NewSession{Name: "b", GraceMS: ms(0)})
	w.k.Fork(100, 110, "lngtest-x")
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if len(w.k.Signals()) != 0 {
		t.Errorf("signals were sent: %v", w.k.Signals())
	}
	w.k.Fork(110, 111, "lngtest-gap")
	w.k.Exit(110, 0)
	w.k.Exit(101, 0) // the root of b dies while no daemon runs
	w.k.DropEvents()
	w.start(Options{Version: "9.9.9"})
	d := into[api.Session](w.do("user", "GET", "/v1/sessions/a", nil), http.StatusOK)
	if d.ID != a.ID || d.UID != 1000 || d.State != "active" || d.Live != 2 || d.Root.PID != 100 {
		t.Errorf("%+v", d)
	}
	tree := into[api.Tree](w.do("user", "GET", "/v1/sessions/a/tree", nil), http.StatusOK)
	if !slices.ContainsFunc(tree.Nodes, func(n api.Node) bool { return n.PID == 111 && n.Session == a.ID }) {
		t.Errorf("%+v", tree.Nodes)
	}
	if r := w.receipt(b.ID); r.Verdict != "clean" || r.EndReason != "root_exit" {
		t.Errorf("%+v", r)
	}
}

// TestRestartWithBacklog: the events of the gap are read late, and show the leftovers
// by their time.
func TestRestartWithBacklog(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	w.k.Fork(100, 101, "lngtest-before")
	w.k.Fork(100, 102, "lngtest-leftover")
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w.k.Exit(101, 0)
	w.k.Advance(time.Second)
	w.k.Exit(100, 0)
	w.start(Options{Version: "9.9.9"})
	r := w.receipt(s.ID)
	if len(r.Processes) != 1 || r.Processes[0].PID != 102 || !r.Processes[0].Leftover || r.Processes[0].Outcome != "kill" {
		t.Errorf("%+v", r)
	}
}

// The process that has to reap an end's zombies is named, a member or not.
func TestEndLeavesZombie(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{})
	w.k.Edit(100, func(p *kerneltest.Proc) { p.Unreaped = true })
	w.k.Exit(100, 0)
	w.until(func() bool { // its parent is given time to reap it
		w.k.Advance(100 * time.Millisecond)
		return w.do("root", "GET", "/v1/sessions/"+s.ID+"/report", nil).status == http.StatusOK
	})
	r := w.receipt(s.ID)
	status, err := w.h.proc.Status(userPID)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Zombies) != 1 || r.Zombies[0].Reaper == nil || r.Zombies[0].Reaper.PID != userPID || r.Zombies[0].Reaper.Comm != status.Name {
		t.Errorf("zombies %+v, want them to be reaped by %q", r.Zombies[0].Reaper, status.Name)
	}
}
