//go:build linux

package registry_test

import (
	"net/http"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
)

// TestUsageOfThoseWhoLeft: what a session uses is shown without the members that were kept or
// have exited, as soon as they are not counted any more; a kept or adopted session has theirs at once.
func TestUsageOfThoseWhoLeft(t *testing.T) {
	w := daemontest.New(t)
	uses := func(pid uint32, rss uint64) { w.K.Edit(pid, func(p *kerneltest.Proc) { p.RSS = rss }) }
	want := func(what, id string, live int, rss uint64) {
		t.Helper()
		if s := daemontest.Get[api.Session](w, "root", "/v1/sessions/"+id); s.Live != live || s.RSSBytes != rss {
			t.Errorf("%s: %d live, %d bytes, want %d and %d", what, s.Live, s.RSSBytes, live, rss)
		}
	}
	s := w.Session("root", 100, api.NewSession{})
	w.K.Fork(100, 101, "lngtest-server")
	w.K.Fork(100, 102, "lngtest-tool")
	for pid, rss := range map[uint32]uint64{100: 1 << 20, 101: 2 << 20, 102: 4 << 20} {
		uses(pid, rss)
	}
	w.Do("root", "POST", "/v1/resync", nil)
	want("all", s.ID, 3, 7<<20)
	w.K.Exit(102, 0)
	want("one has exited", s.ID, 2, 3<<20)
	kept := daemontest.Into[api.Session](w.Keep("root", 101), http.StatusCreated)
	if kept.RSSBytes != 2<<20 {
		t.Errorf("kept: %+v", kept)
	}
	want("one was kept", s.ID, 1, 1<<20)
	want("the kept one", kept.ID, 1, 2<<20)
	w.Add(110, daemontest.Shell, 0, "lngtest-agent")
	uses(110, 8<<20)
	if adopted := daemontest.Into[api.Session](w.Adopt("root", 110), http.StatusCreated); adopted.RSSBytes != 8<<20 {
		t.Errorf("adopted: %+v", adopted)
	}
}
