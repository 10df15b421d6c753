//go:build linux

package export

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestUntracked: a session whose kernel record is removed while it is live gets its span,
// once, with an unknown end. Its processes stay alive.
func TestUntracked(t *testing.T) {
	i := stage.New(t)
	i.Daemon()
	r := newReceiver(t)
	exporter(i, r.addr, "traces", filepath.Join(i.Dir, "state"))
	m := stage.NewMarker(t, i.Dir)
	i.Run(m, []string{"--name", "lost", "--on-exit", "report"}, "daemonise").Wait()
	m.Ready()
	id := i.Record("lost").ID
	i.Must("daemon", "--unload", "--force")
	i.Daemon()
	spans := r.ended(id)
	if len(spans) != 1 || r.repeated != 0 || attribute(spans[0].Attributes, "lineage.session.end_reason") != "untracked" ||
		attribute(spans[0].Attributes, "lineage.session.verdict") != "unknown" {
		t.Errorf("%d spans, %d came again: %v", len(spans), r.repeated, spans)
	}
	if all := r.orphans(); len(all) > 0 {
		t.Errorf("spans without their parent: %q", all)
	}
	if !m.Drain() {
		t.Error("the member is dead")
	}
	m.Kill()
}

// TestLookalike: a session that an agent rule opened by the name of a program, and that the
// daemon released when it saw the file, gets its span too.
func TestLookalike(t *testing.T) {
	i := stage.New(t)
	name := fmt.Sprintf("lngtest-%d", os.Getpid()) // another run of this test may be going on
	lookalike := filepath.Join(i.Dir, name)
	require.NoError(t, os.Rename(i.Copy("/bin/sleep"), lookalike))
	i.Daemon("--policy", i.Policy("agents:\n  - {name: lngtest-lookalike, enabled: true, match: {comm: "+name+", exe: /nonexistent}}\n"))
	r := newReceiver(t)
	exporter(i, r.addr, "traces", filepath.Join(i.Dir, "state"))
	require.NoError(t, exec.Command(lookalike, "1").Run())
	if spans := r.ended(""); len(spans) != 1 ||
		attribute(spans[0].Attributes, "lineage.session.end_reason") != "untracked" {
		t.Errorf("%d spans: %v", len(spans), spans)
	}
}

// ended waits for spans of a session itself; if id is empty, of any session. Every 15 s the daemon
// says that it has sent everything.
func (r *receiver) ended(id string) (all []*trace.Span) {
	for deadline := time.Now().Add(2 * stage.Patience); len(all) == 0 &&
		time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, s := range r.all() {
			if s.Name == "lineage.session" && (id == "" || attribute(s.Attributes, "lineage.session.id") == id) {
				all = append(all, s)
			}
		}
	}
	return all
}
