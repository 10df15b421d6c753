//go:build linux

package registry_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
)

// heap is what the daemon has besides its graph, in KiB.
func heap(w *daemontest.Daemon) int {
	w.Helper()
	var m runtime.MemStats
	w.K.AllRead()
	runtime.GC()
	runtime.ReadMemStats(&m)
	var graph lineage.Stats
	require.NoError(w, w.Service.Registry.Read(func(v registry.View) { graph = v.Graph().Stats() }))
	return int(m.HeapAlloc>>10) - int(graph.Bytes>>10)
}

// TestMemoryOfAUser: a user fills all that the daemon remembers of sessions, with command lines of
// 4,000 empty arguments, each of which takes 68 KiB. The heap stays within what docs/SECURITY.md
// says, and what ended sessions took is free again.
func TestMemoryOfAUser(t *testing.T) {
	w := daemontest.New(t)
	const sessions, clients, members = 60, 64, 20
	empty := strings.Repeat("\x00", 3990)
	before := heap(w)
	var all []*api.Session
	pid := uint32(daemontest.Self + 1)
	fill := func(n int) {
		s := w.Session("user", pid, api.NewSession{Name: fmt.Sprint("work", n), GraceMS: daemontest.MS(0)})
		all = append(all, s)
		root := pid
		for i := range clients + members {
			pid++
			w.K.Fork(root, pid, "lngtest")
			file := "/usr/bin/screen"
			if i >= clients {
				file = "/usr/bin/lngtest"
			}
			w.K.Exec(pid, file, fmt.Sprintf("%d-%d\x00", n, i)+empty)
			if i < clients {
				w.K.Exit(pid, 0)
			}
		}
		pid++
		w.K.AllRead()
		if n%15 == 0 {
			w.Do("reader", "GET", "/v1/sessions/"+s.ID+"/tree?dead=all", nil) // hides secrets
		}
	}
	for n := range sessions {
		fill(n)
	}
	filled := heap(w) - before
	for _, s := range all {
		w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", nil)
	}
	w.Until(func() bool {
		return len(daemontest.Get[api.Sessions](w, "user", "/v1/sessions").Items) == 0
	})
	ended := heap(w) - before
	t.Logf("besides the graph: 60 sessions take %d KiB more, ended %d KiB", filled, ended)
	// Requests to brokers 16 MiB, receipts 24 MiB, results of redaction 8 MiB; the events 24 MiB, here and once more
	// in the kernel of the test; and what the graph has forgotten but a receipt names.
	if filled > 100<<10 || ended > 160<<10 {
		t.Errorf("60 sessions take %d KiB, ended %d KiB", filled, ended)
	}
}
