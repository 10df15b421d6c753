//go:build linux

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// host is what the bus has of the host; nil: it is not there.
func (w *world) host() *service.LinkedHost {
	w.T.Helper()
	m, err := w.admin.Request("$JS.API.DIRECT.GET.KV_LIN_HOSTS.$KV.LIN_HOSTS.web1", nil, 10*time.Second)
	require.NoError(w.T, err)
	if m.Header.Get("Status") == "404" {
		return nil
	}
	var h service.LinkedHost
	require.NoError(w.T, json.Unmarshal(m.Data, &h))
	return &h
}

// TestPresence: a host that has a link is there, with its sessions; without a daemon it says so; without a
// link it is gone when the TTL is over.
func TestPresence(t *testing.T) {
	w := newWorld(t, "")
	w.Until("host", func() bool { h := w.host(); return h != nil && h.Level > 0 && h.Sessions == 0 })
	w.Start([]string{"run", "--name", "lngtest-here", "--", "sleep", "600"}, nil)
	w.Until("session", func() bool { h := w.host(); return h != nil && h.Sessions == 1 })
	w.Must("end", "lngtest-here", "--yes", "--now")
	w.Until("no session", func() bool { h := w.host(); return h != nil && h.Sessions == 0 })
	w.serves.Process.Kill()
	w.serves.Wait()
	w.Until("no daemon", func() bool { h := w.host(); return h != nil && h.Level == 0 && len(h.Degraded) == 1 })
	w.daemon()
	w.Until("daemon", func() bool { h := w.host(); return h != nil && h.Level > 0 })
	w.Until("receipt", func() bool { return len(w.receipts()) == 1 })
	peak, now := w.memory()
	t.Logf("figure: link VmHWM %d KiB, VmRSS %d KiB", peak, now)
	w.kill()
	w.Until("end of the presence", func() bool { return w.host() == nil })
}
