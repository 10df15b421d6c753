//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A running process with children, one of which is another session's owner and
// one of which somebody protects.
func TestAdopt(t *testing.T) { everySide(t, testAdopt) }

func testAdopt(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	w := start(t, `sleep 60 & echo $!; sh -c 'sleep 61 & echo $!; wait' & echo $!; sleep 62 & echo $!; while read go; do sleep 63 & echo $!; done`)
	w.goOn()
	child, a, b, guarded := parse(t, w.line()), parse(t, w.line()), parse(t, w.line()), parse(t, w.line())
	if err := tr.Protect(guarded); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Kill(int(guarded), unix.SIGKILL) })
	id := create(t, tr, w, tracer.SessionSpec{Adopted: true, Name: "found"})
	n, err := tr.Adopt(id)
	if err != nil || n != 3 {
		t.Errorf("adopted %d: %v", n, err)
	}
	for _, pid := range []uint32{child, a, b} {
		e, err := tr.Lookup(pid)
		if err != nil || e.Session != id || e.Evidence != tracer.EvidenceAdopted || e.Source != tracer.SourceParent || !e.Source.Strong() || e.Creator.PID == 0 {
			t.Errorf("%d: %+v, %v", pid, e, err)
		}
	}
	if e, err := tr.Lookup(w.pid()); err != nil || e.Evidence != tracer.EvidenceRoot || e.Source != tracer.SourceRequest {
		t.Errorf("root: %+v, %v", e, err)
	}
	if e, err := tr.Lookup(guarded); err != nil || e.Session != 0 {
		t.Errorf("protected: %+v, %v", e, err)
	}
	w.goOn()
	if e, err := tr.Lookup(parse(t, w.line())); err != nil || e.Session != id || e.Evidence != tracer.EvidenceFork {
		t.Errorf("born after: %+v, %v", e, err)
	}
	if s, err := tr.Session(id); err != nil || s.Live != 5 || s.Forks != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	tr.End(id, tracer.CauseEnd, 0)
	unix.Kill(int(guarded), unix.SIGKILL)
	w.gone()
	w.cmd.Wait()
	settled(t, tr, id)
}

// Fifty threads fork all the time while their process is adopted. Not one of
// their children is missed: nobody is left when the session has ended. 5 rounds,
// or LNGTEST_ROUNDS.
func TestAdoptWhileForking(t *testing.T) { everySide(t, testAdoptWhileForking) }

func testAdoptWhileForking(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	if text := os.Getenv("LNGTEST_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	walked := 0
	for range rounds {
		w := program(t, "forkers", "50", "20")
		w.goOn()
		w.until("ready")
		id := create(t, tr, w, tracer.SessionSpec{Adopted: true})
		n, err := tr.Adopt(id)
		if err != nil {
			t.Fatal(err)
		}
		walked += n
		if err := tr.End(id, tracer.CauseEnd, 0); err != nil {
			t.Fatal(err)
		}
		w.cmd.Wait()
		w.gone()
		settled(t, tr, id)
		if err := tr.Release(id); err != nil {
			t.Error(err)
		}
	}
	t.Logf("figure: nobody missed in %d of %d rounds; %d entered by walks", rounds, rounds, walked)
}

// A stranger is entered on evidence, with what descends from it.
func TestEnter(t *testing.T) { everySide(t, testEnter) }

func testEnter(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	w, stranger := start(t, "read go"), start(t, "sleep 60 & echo $!; wait")
	id := create(t, tr, w, tracer.SessionSpec{})
	stranger.goOn()
	child := parse(t, stranger.line())
	who, err := tr.Identify(stranger.pid())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := tr.Identify(w.pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Enter(id, tracer.Identity{PID: who.PID, Start: who.Start + 1}, asked, tracer.SourceEnv); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("another process by that PID: %v", err)
	}
	if err := tr.Enter(id, who, asked, tracer.SourceEnv); err != nil {
		t.Fatal(err)
	}
	if err := tr.Enter(id, who, asked, tracer.SourceEnv); !errors.Is(err, tracer.ErrProtected) {
		t.Errorf("entered twice: %v", err)
	}
	if n, err := tr.Adopt(id); err != nil || n != 1 {
		t.Errorf("adopted %d: %v", n, err)
	}
	if e, err := tr.Lookup(who.PID); err != nil || e.Session != id || e.Source != tracer.SourceEnv || e.Creator != asked {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != id {
		t.Errorf("%+v, %v", e, err)
	}
	tr.End(id, tracer.CauseEnd, 0)
	stranger.gone()
	stranger.cmd.Wait()
	w.cmd.Wait()
	settled(t, tr, id)
}

// On better evidence the root of a session that outlives its root goes to
// another one, what it forked follows, and it ends with that one.
func TestRaise(t *testing.T) { everySide(t, testRaise) }

func testRaise(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	w, stranger := start(t, "read go"), start(t, "sleep 60 & echo $!; wait")
	id := create(t, tr, w, tracer.SessionSpec{})
	beside := create(t, tr, stranger, tracer.SessionSpec{Adopted: true, KeepOnRootExit: true, Source: tracer.SourceSocket, For: id, Weak: true})
	if info, err := tr.Session(beside); err != nil || info.For != id || !info.Weak || info.Name != "" {
		t.Errorf("%+v, %v", info, err)
	}
	if err := tr.SetTerms(beside, tracer.SessionSpec{KeepOnRootExit: true, For: id}); err != nil {
		t.Error(err)
	}
	if info, err := tr.Session(beside); err != nil || info.For != id || info.Weak || info.Name != "" {
		t.Errorf("%+v, %v", info, err)
	}
	stranger.goOn()
	child := parse(t, stranger.line())
	who, err := tr.Identify(stranger.pid())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := tr.Identify(w.pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Raise(id, id, who, asked, tracer.SourceEnv); !errors.Is(err, tracer.ErrProtected) {
		t.Errorf("from a session that it is not in: %v", err)
	}
	if err := tr.Raise(beside, beside, who, asked, tracer.SourceUnit); err != nil {
		t.Fatal(err)
	}
	if e, err := tr.Lookup(who.PID); err != nil || e.Session != beside || e.Source != tracer.SourceUnit {
		t.Errorf("%+v, %v", e, err)
	}
	if err := tr.Raise(beside, id, who, asked, tracer.SourceEnv); err != nil {
		t.Fatal(err)
	}
	if n, err := tr.Follow(beside, id); err != nil || n != 1 {
		t.Errorf("%d followed: %v", n, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != id {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := tr.Lookup(who.PID); err != nil || e.Session != id || e.Source != tracer.SourceEnv || e.Evidence != tracer.EvidenceAdopted || e.Creator != asked {
		t.Errorf("%+v, %v", e, err)
	}
	if info, err := tr.Session(beside); err != nil || info.Live != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err := tr.Session(id); err != nil || info.Live != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	settled(t, tr, beside)
	tr.End(id, tracer.CauseEnd, 0)
	stranger.gone()
	stranger.cmd.Wait()
	w.cmd.Wait()
	settled(t, tr, id)
}

// Who is handed over outlives its session, with its descendants and what they
// fork, and ends when its time is over.
func TestKeep(t *testing.T) { everySide(t, testKeep) }

func testKeep(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	w := start(t, `sh -c 'sleep 60 & echo $!; wait' & echo $!; sleep 62 & echo $!; wait`)
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	for range 3 {
		w.line()
	}
	var kept, child tracer.Identity
	for _, p := range members(t, tr, id) {
		switch {
		case p.PID == w.pid():
			if _, err := tr.Create(tracer.SessionSpec{Root: p.Identity, KeptFrom: id}); !errors.Is(err, tracer.ErrRoot) {
				t.Errorf("kept the root: %v", err)
			}
			if err := tr.Move(p.Identity, id, 0); !errors.Is(err, tracer.ErrRoot) {
				t.Errorf("moved the root: %v", err)
			}
		case p.Creator.PID != w.pid():
			child, kept = p.Identity, p.Creator
		}
	}
	k, err := tr.Create(tracer.SessionSpec{Root: kept, KeptFrom: id, MaxLifetime: time.Hour, Name: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := tr.Follow(id, k); err != nil || n != 1 {
		t.Errorf("followed %d: %v", n, err)
	}
	if err := tr.Move(child, id, k); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("moved twice: %v", err)
	}
	s, err := tr.Session(k)
	if err != nil || !s.Kept || s.Live != 2 || s.Parent != 0 || s.Root != kept {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := tr.Session(id); err != nil || s.Live != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	tr.End(id, tracer.CauseEnd, 0)
	w.cmd.Wait()
	settled(t, tr, id)
	for _, p := range members(t, tr, k) {
		if p.Dead || p.Identity != kept && p.Identity != child {
			t.Errorf("%+v", p)
		}
	}
	if s, err := tr.Session(k); err != nil || s.State != tracer.StateActive || s.Live != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	tr.End(k, tracer.CauseEnd, 0)
	w.gone()
	settled(t, tr, k)
}

func TestKeepExpires(t *testing.T) { everySide(t, testKeepExpires) }

func testKeepExpires(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	w := start(t, "sleep 60 & echo $!; wait")
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	child, err := tr.Identify(parse(t, w.line()))
	if err != nil {
		t.Fatal(err)
	}
	k, err := tr.Create(tracer.SessionSpec{Root: child, KeptFrom: id, MaxLifetime: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var s tracer.SessionInfo
	until(t, "the kept session expires", func() bool {
		if _, err := tr.Sentence(); err != nil {
			t.Fatal(err)
		}
		s, err = tr.Settle(k)
		return err == nil && s.State == tracer.StateEmpty
	})
	if s.Cause != tracer.CauseExpired {
		t.Errorf("cause %v", s.Cause)
	}
	w.gone()
	w.cmd.Wait()
	settled(t, tr, id)
}

// agent gives a program that execs under the name and does what start does.
func agent(t *testing.T, name, script string) *workload {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink("/bin/sh", path); err != nil {
		t.Fatal(err)
	}
	return start(t, "exec "+path+" -c '"+script+"'")
}

// opened waits for the session of the process.
func opened(t *testing.T, tr *tracer.Tracer, pid uint32) tracer.SessionInfo {
	t.Helper()
	var s tracer.SessionInfo
	until(t, "a session is opened", func() bool {
		e, err := tr.Lookup(pid)
		if err != nil || e.Session == 0 {
			return false
		}
		s, err = tr.Session(e.Session)
		return err == nil && s.Root.PID == pid
	})
	return s
}

const agentName = "lngtest-agent"

// A program of an agent's name is a session from its exec on.
func TestAgents(t *testing.T) { everySide(t, testAgents) }

func testAgents(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	if err := tr.SetAgents([]tracer.Agent{
		{Comm: agentName, Rule: 7, Grace: time.Minute, MaxProcesses: 99, Idle: time.Hour},
		{Comm: "lngtest-other"},
	}); err != nil {
		t.Fatal(err)
	}
	w := agent(t, agentName, "sleep 60 & echo $!; wait")
	w.goOn()
	child := parse(t, w.line())
	s := opened(t, tr, w.pid())
	if !s.Agent || s.Rule != 7 || s.Grace != time.Minute || s.MaxProcesses != 99 || s.Idle != time.Hour || s.Live != 2 || s.Parent != 0 {
		t.Errorf("%+v", s)
	}
	if e, err := tr.Lookup(w.pid()); err != nil || e.Evidence != tracer.EvidenceRoot || e.Source != tracer.SourceRule {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != s.ID {
		t.Errorf("%+v, %v", e, err)
	}
	// Without its agents the kernel opens nothing, and what is open stays.
	if err := tr.SetAgents(nil); err != nil {
		t.Fatal(err)
	}
	other := agent(t, agentName, "echo up; read go")
	other.goOn()
	other.until("up")
	if _, err := tr.Lookup(other.pid()); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("opened without a rule: %v", err)
	}
	tr.End(s.ID, tracer.CauseEnd, 0)
	w.gone()
	w.cmd.Wait()
	settled(t, tr, s.ID)
	for _, bad := range [][]tracer.Agent{{{Comm: ""}}, {{Comm: "longer than fits"}}, {{Comm: "a"}, {Comm: "a"}}} {
		if err := tr.SetAgents(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// What an agent's session is held to is decided when it is known what it is.
func TestSetTerms(t *testing.T) { everySide(t, testSetTerms) }

func testSetTerms(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	if err := tr.SetAgents([]tracer.Agent{{Comm: agentName, KeepOnRootExit: true}}); err != nil {
		t.Fatal(err)
	}
	w := agent(t, agentName, "sleep 60 & echo $!; read go; exit")
	w.goOn()
	w.line()
	s := opened(t, tr, w.pid())
	w.goOn()
	w.cmd.Wait()
	if s, err := tr.Session(s.ID); err != nil || s.State != tracer.StateActive || s.Live != 1 {
		t.Errorf("before: %+v, %v", s, err)
	}
	if err := tr.SetTerms(s.ID, tracer.SessionSpec{Name: "known", Rule: 3, MaxRSS: 5, Grace: 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Sentence(); err != nil {
		t.Fatal(err)
	}
	w.gone()
	s = settled(t, tr, s.ID)
	if s.Name != "known" || s.Rule != 3 || s.MaxRSS != 5 || !s.Agent || s.Cause != tracer.CauseRootExit {
		t.Errorf("after: %+v", s)
	}
	if err := tr.SetTerms(s.ID, tracer.SessionSpec{}); !errors.Is(err, tracer.ErrBusy) {
		t.Errorf("set when it was over: %v", err)
	}
}

// A lookalike is let go of with all its children, and not found again.
func TestDissolve(t *testing.T) { everySide(t, testDissolve) }

func testDissolve(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	if err := tr.SetAgents([]tracer.Agent{{Comm: agentName}}); err != nil {
		t.Fatal(err)
	}
	w := agent(t, agentName, "sleep 60 & echo $!; read go; sleep 61 & echo $!; wait")
	w.goOn()
	child := parse(t, w.line())
	s := opened(t, tr, w.pid())
	n, err := tr.Dissolve(s.ID)
	if err != nil || n != 2 {
		t.Errorf("let go %d: %v", n, err)
	}
	s, err = tr.Settle(s.ID)
	if err != nil || s.State != tracer.StateEmpty || s.Cause != tracer.CauseReleased || s.Live != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := tr.Dissolve(s.ID); !errors.Is(err, tracer.ErrBusy) {
		t.Errorf("dissolved twice: %v", err)
	}
	if err := tr.Release(s.ID); err != nil {
		t.Error(err)
	}
	w.goOn()
	later := parse(t, w.line())
	if _, err := tr.Lookup(later); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("born after: %v", err)
	}
	for _, pid := range []uint32{w.pid(), child} {
		e, err := tr.Lookup(pid)
		if err != nil || e.Session != 0 || e.Flags&tracer.FlagReleased == 0 {
			t.Errorf("%+v, %v", e, err)
		}
		if err := unix.Kill(int(pid), 0); err != nil {
			t.Errorf("%d: %v", pid, err)
		}
	}
	for _, pid := range []uint32{child, later} {
		unix.Kill(int(pid), unix.SIGKILL)
	}
	w.gone()
}

// An agent inside a session opens one of its own only if its rule says so, and
// a root that becomes one stays what it is.
func TestAgentInside(t *testing.T) {
	for _, nests := range []bool{false, true} {
		tr := tracertest.New(t, tracer.Options{})
		if err := tr.SetAgents([]tracer.Agent{{Comm: agentName, Nests: nests}}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), agentName)
		if err := os.Symlink("/bin/sh", path); err != nil {
			t.Fatal(err)
		}
		w := start(t, "exec "+path+" -c '"+path+" -c \"echo \\$\\$; sleep 60 & wait\" & wait'")
		id := create(t, tr, w, tracer.SessionSpec{})
		w.goOn()
		inner := parse(t, w.line())
		if e, err := tr.Lookup(w.pid()); err != nil || e.Session != id {
			t.Errorf("root: %+v, %v", e, err)
		}
		e, err := tr.Lookup(inner)
		if err != nil || (e.Session != id) != nests {
			t.Errorf("nests %v: %+v, %v", nests, e, err)
		}
		if s, err := tr.Session(e.Session); nests && (err != nil || s.Parent != id) {
			t.Errorf("%+v, %v", s, err)
		}
		tr.End(id, tracer.CauseEnd, 0)
		w.gone()
		w.cmd.Wait()
		settled(t, tr, id)
	}
}

// Anybody can call a program as an agent is called: no uid gets more than its share.
func TestAgentLimit(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	if err := tr.SetAgents([]tracer.Agent{{Comm: agentName}}); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "map_agent_uids"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	m, err := ebpf.LoadPinnedMap(found[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Put(uint32(0), uint64(4096)); err != nil {
		t.Fatal(err)
	}
	w := agent(t, agentName, "echo up; read go")
	w.goOn()
	w.until("up")
	if _, err := tr.Lookup(w.pid()); !errors.Is(err, tracer.ErrNotFound) {
		t.Errorf("opened above the limit: %v", err)
	}
	if c, err := tr.Counters(); err != nil || c["agent_refused"] != 1 {
		t.Errorf("%v, %v", c, err)
	}
	if err := m.Put(uint32(0), uint64(4095)); err != nil {
		t.Fatal(err)
	}
	w.goOn()
	w.gone()
	w.cmd.Wait()
	again := agent(t, agentName, "read go; exit")
	again.goOn()
	s := opened(t, tr, again.pid())
	tr.End(s.ID, tracer.CauseEnd, 0)
	again.gone()
	again.cmd.Wait()
	settled(t, tr, s.ID)
	if err := tr.Release(s.ID); err != nil {
		t.Fatal(err)
	}
	var left uint64
	if err := m.Lookup(uint32(0), &left); err != nil || left != 4095 {
		t.Errorf("%d are counted, %v", left, err)
	}
}
