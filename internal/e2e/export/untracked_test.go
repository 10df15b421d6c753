//go:build linux

package export

import (
	"path/filepath"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestUntracked: a session whose record in the kernel is removed while it lives gets its span,
// once, with an end that is not known. What is alive stays alive.
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
	for deadline := time.Now().Add(2 * stage.Patience); len(r.sessions(id)) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) { // the daemon says each 15 s that it has sent everything
			t.Fatal("no span of the session")
		}
	}
	spans := r.sessions(id)
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

// sessions are the spans of a session itself.
func (r *receiver) sessions(id string) (all []*trace.Span) {
	for _, s := range r.all() {
		if s.Name == "lineage.session" && attribute(s.Attributes, "lineage.session.id") == id {
			all = append(all, s)
		}
	}
	return all
}
