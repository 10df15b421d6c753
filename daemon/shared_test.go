//go:build linux

package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A server of several sessions leaves the one that started it, and ends with the last
// one that could use it.
func TestSharedServer(t *testing.T) {
	w := newWork(t, enforced+"brokers:\n  shared:\n    - {name: build, match: {exe: /bin/lngtest-java, argv: --flag}}\n"+
		"    - {name: cache, match: {exe: /bin/lngtest-cache}, end: never}\n")
	second := w.session("user", 200, api.NewSession{GraceMS: ms(0)})
	w.session("else", 210, api.NewSession{GraceMS: ms(0)})
	serves := func(pid uint32, comm string) {
		w.k.Fork(100, pid, comm)
		w.proc(pid, 100, 1000, comm)
		w.k.Exec(pid, "/bin/"+comm, comm+"\x00--flag\x00")
		w.until(func() bool { return w.in(pid) != w.s.ID })
	}
	w.k.Fork(100, 104, "lngtest-cache") // its link shows the file of a rule, before the others ask
	w.proc(104, 100, 1000, "lngtest-cache")
	w.k.Edit(104, func(p *kerneltest.Proc) { p.Runs = &tracer.Running{} })
	w.k.Exec(104, "/bin/lngtest-cache", "lngtest-cache\x00")
	serves(101, "lngtest-java")
	serves(102, "lngtest-cache")
	w.k.Fork(101, 103, "lngtest-worker")
	doc := into[api.Session](w.do("user", "GET", "/v1/sessions/"+w.in(101), nil), http.StatusOK)
	if doc.Shared != "build" || !doc.Kept || doc.Until != nil || doc.Parent != "" {
		t.Errorf("%+v", doc)
	}
	w.k.Exit(100, 0)
	w.receipt(w.s.ID)
	w.restart() // the rule is remembered
	w.look()
	if w.dead(101) || w.dead(103) {
		t.Error("it ended with the first session")
	}
	if !w.dead(104) {
		t.Error("it left its session by the text of a link")
	}
	w.k.Exit(200, 0)
	w.receipt(second.ID)
	w.look()
	if r := w.receipt(doc.ID); r.EndReason != "expired" || r.Verdict != "clean" || !w.dead(103) {
		t.Errorf("%+v", r)
	}
	if w.dead(102) {
		t.Error("the one that is never to end did")
	}
	// A daemon that remembers nothing finds the rule again.
	w.stop()
	if err := os.RemoveAll(filepath.Dir(w.i.History)); err != nil {
		t.Fatal(err)
	}
	w.start(Options{Version: "9.9.9", Policy: w.policed.file})
	w.until(func() bool {
		d := into[api.Session](w.do("user", "GET", "/v1/sessions/"+w.in(102), nil), http.StatusOK)
		return d.Shared == "cache" && d.KeepRule == "cache" && d.Reason != ""
	})
}
