//go:build linux

package attribution_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A server of several sessions leaves the one that started it, and ends with the last
// one that could use it.
func TestSharedServer(t *testing.T) {
	w := newWork(t, enforced+"brokers:\n  shared:\n    - {name: build, match: {exe: /bin/lngtest-java, argv: --flag}}\n"+
		"    - {name: cache, match: {exe: /bin/lngtest-cache}, end: never}\n")
	second := w.Session("user", 200, api.NewSession{GraceMS: daemontest.MS(0)})
	w.Session("else", 210, api.NewSession{GraceMS: daemontest.MS(0)})
	serves := func(pid uint32, comm string) {
		w.Fork(100, pid, 1000, comm)
		w.K.Exec(pid, "/bin/"+comm, comm+"\x00--flag\x00")
		w.Until(func() bool { return w.in(pid) != w.s.ID })
	}
	w.Fork(100, 104, 1000, "lngtest-cache") // its link shows the file of a rule, before the others ask
	w.K.Edit(104, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
	w.K.Exec(104, "/bin/lngtest-cache", "lngtest-cache\x00")
	serves(101, "lngtest-java")
	serves(102, "lngtest-cache")
	w.K.Fork(101, 103, "lngtest-worker")
	doc := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+w.in(101))
	if doc.Shared != "build" || !doc.Kept || doc.Until != nil || doc.Parent != "" {
		t.Errorf("%+v", doc)
	}
	w.K.Exit(100, 0)
	w.Receipt(w.s.ID)
	w.Restart() // the rule is remembered
	w.look()
	w.Survive([]uint32{101, 103, 104}, 101, 103) // 104 did not leave the session by the text of a link
	w.K.Exit(200, 0)
	w.Receipt(second.ID)
	w.look()
	if r := w.Receipt(doc.ID); r.EndReason != "expired" || r.Verdict != "clean" || !w.Dead(103) {
		t.Errorf("%+v", r)
	}
	if w.Dead(102) {
		t.Error("the one that is never to end did")
	}
	// A daemon that remembers nothing finds the rule again.
	w.Stop()
	require.NoError(t, os.RemoveAll(filepath.Dir(w.Instance.History)))
	w.Start()
	w.Until(func() bool {
		d := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+w.in(102))
		return d.Shared == "cache" && d.KeepRule == "cache" && d.Reason != ""
	})
}

// What codex has on a terminal is done by a server that all terminals of the user share. The session says so, however codex
// exits, unless its own members are that server.
func TestAgentsSharedServer(t *testing.T) {
	w := newWork(t, enforced)
	w.runs(101, "/opt/bin/codex", "do it")
	w.runs(102, "/opt/bin/codex", "--no-daemon", "do it")
	w.runs(103, "/opt/bin/codex", "exec", "do it")
	w.outsider(30, 1, "codex")
	w.outsider(300, 30, "lngtest-call")
	w.look()
	w.outside(30, 300) // the other terminals' as well
	w.K.Exit(101, 1<<8)
	w.K.Advance(3 * time.Second)
	if b := w.brokered(1)[0]; b.State != "unattributed" || b.Asked.PID != 101 || !b.Shared() {
		t.Errorf("%+v", b)
	}
	w.runs(104, "/opt/bin/codex")
	w.brokered(2)
	w.runs(105, "/opt/bin/codex", "app-server", "--listen", "unix://", "--managed-daemon")
	w.runs(106, "/opt/bin/codex", "resume")
	if b := w.brokered(1)[0]; b.Asked.PID != 101 {
		t.Errorf("%+v", b)
	}
}

// A server of codex's leaves the session of the first terminal once a client in another session is connected to it, by the kernel's
// word, and ends with the last one. Neither a name, nor arguments, nor a client of its own session let a member leave.
func TestServerOfTerminals(t *testing.T) {
	w := newWork(t, "mode: observe\n")
	var to atomic.Uint32 // where each client is connected
	w.Stop()
	w.Host.Sockets = func(uint32) ([]attribution.Socket, error) {
		return []attribution.Socket{{Path: "/own"}, {Listener: to.Load(), Path: "/s"}}, nil
	}
	w.Start()
	server := func(pid, parent uint32, file string, words ...string) {
		w.Fork(parent, pid, 1000, "codex")
		w.Exe(pid, file)
		argv := strings.Join(append([]string{file, "app-server"}, words...), "\x00") + "\x00"
		w.File(pid, "cmdline", argv)
		w.K.Exec(pid, file, argv)
	}
	asks := func(pid, root uint32) {
		w.Fork(root, pid, 1000, "codex")
		w.K.Exec(pid, "/opt/codex", "/opt/codex\x00")
		w.K.Advance(time.Hour)
		w.look()
	}
	second := w.Session("user", 200, api.NewSession{GraceMS: daemontest.MS(0)})
	asks(101, 100)
	server(102, 100, "/opt/codex", "--managed-daemon")
	server(103, 100, "/opt/codex")                            // not shared
	server(104, 100, "/opt/lngtest-perl", "--managed-daemon") // not codex
	w.K.Fork(102, 105, "lngtest-call")
	w.brokered(0)
	w.Fork(100, 106, 1000, "lngtest-shell")
	if inner := daemontest.Into[api.Session](w.Adopt("user", 106), http.StatusCreated); inner.Parent != w.s.ID {
		t.Fatalf("%+v", inner)
	}
	w.Session("else", 210, api.NewSession{GraceMS: daemontest.MS(0)})
	for pid := uint32(102); pid <= 104; pid++ {
		to.Store(pid)
		asks(10+pid, 106)  // in a session that is nested in that of the servers
		asks(210+pid, 210) // of another user
		if pid > 102 {
			asks(110+pid, 200)
		}
		w.Survive([]uint32{102, 103, 104, 105}, 102, 103, 104, 105)
		w.In(map[uint32]string{102: w.s.ID, 103: w.s.ID, 104: w.s.ID, 105: w.s.ID})
	}
	to.Store(102)
	asks(202, 200)
	w.Until(func() bool { return w.in(102) != w.s.ID && w.in(105) == w.in(102) })
	doc := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+w.in(102))
	if !doc.Kept || doc.Shared != "codex" || doc.KeepRule != "" || doc.Parent != "" {
		t.Errorf("%+v", doc)
	}
	if b := w.brokered(1)[0]; b.Asked.PID != 101 || !b.Shared() { // the server has left the first terminal
		t.Errorf("%+v", b)
	}
	w.K.Exit(100, 0)
	w.Receipt(w.s.ID)
	w.Survive([]uint32{102, 103, 104, 105}, 102, 105)
	w.Stop() // and is killed before it has written what it knows
	require.NoError(t, os.RemoveAll(filepath.Dir(w.Instance.History)))
	w.Start()
	w.look()
	w.K.Exit(200, 0)
	w.Receipt(second.ID)
	w.look()
	if r := w.Receipt(doc.ID); r.Verdict != "clean" || !w.Dead(105) {
		t.Errorf("%+v", r)
	}
}
