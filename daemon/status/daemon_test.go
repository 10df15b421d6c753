//go:build linux

package status_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

var canaryCommand = []string{"/proc/self/exe", status.CanaryArg}

// checked serves this kernel at a level, with self-checks by policy.
func checked(t *testing.T, level int, policyText string) (c api.Client, r *daemontest.Real) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\n"+policyText), 0o600))
	r = &daemontest.Real{Options: daemon.Options{Level: level, Policy: file, Canary: canaryCommand}}
	return r.Serve(t), r
}

// TestSelfCheckReal: at every level that this kernel has, in both modes, a
// canary is attributed and ended, and nothing of it is seen.
func TestSelfCheckReal(t *testing.T) {
	for _, tt := range []struct {
		level  int
		policy string
	}{
		{2, "mode: enforce\n"}, {3, ""}, {4, "mode: enforce\ndefaults: {max_processes: 1, max_rss: 1MiB}\n"},
	} {
		t.Run(fmt.Sprintf("level %d", tt.level), func(t *testing.T) {
			c, served := checked(t, tt.level, tt.policy+"daemon: {self_check: 0}\n")
			ctx, stop := context.WithCancel(t.Context())
			streamed := make(chan []api.Event, 1)
			second, err := api.Dial(ctx, served.Socket)
			require.NoError(t, err)
			defer second.Close()
			begun := make(chan struct{})
			go func() {
				var all []api.Event
				_ = second.Events(ctx, api.EventsQuery{Snapshot: true}, func(ev *api.Event) error {
					if ev.Kind == "recording" {
						close(begun)
					} else {
						all = append(all, *ev)
					}
					return nil
				})
				streamed <- all
			}()
			<-begun
			status := wait(t, c, func(st *api.Status) bool { return st.SelfCheck != nil })
			if !status.SelfCheck.OK || status.SelfCheck.At == nil || strings.Contains(fmt.Sprint(status.Degraded), "self-check") {
				t.Fatalf("%+v %v", status.SelfCheck, status.Degraded)
			}
			tracertest.NeedsLevel(t, tt.level, status.Level) // its actual level is another row
			if status.Sessions != 0 || status.Live != 0 || status.Level != tt.level {
				t.Errorf("%+v", status)
			}
			if all, err := c.Sessions(t.Context(), "all", ""); err != nil || len(all.Items) != 0 {
				t.Errorf("%+v %v", all, err)
			}
			stop()
			for _, ev := range <-streamed {
				if ev.Session != "" || ev.Process != nil {
					t.Errorf("seen: %+v", ev)
				}
			}
			audited, err := os.ReadFile(filepath.Join(filepath.Dir(served.Socket), "audit.jsonl"))
			if err == nil && strings.Contains(string(audited), `"end"`) {
				t.Errorf("audited: %s", audited)
			}
			nothingLeft(t, served.Dir)
		})
	}
}

// nothingLeft: the kernel has no session.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	k, err := tracer.Open(tracer.Options{Dir: dir})
	require.NoError(t, err)
	defer k.Close()
	if infos, err := k.Sessions(); err != nil || len(infos) != 0 {
		t.Errorf("the kernel has %+v %v", infos, err)
	}
}

func wait(t *testing.T, c api.Client, holds func(*api.Status) bool) (st *api.Status) {
	t.Helper()
	err := system.Poll(t.Context(), func() (ok bool, err error) {
		if st, err = c.Status(t.Context()); err != nil {
			return true, err
		}
		return holds(st), nil
	})
	require.NoError(t, err)
	return st
}

// TestSelfCheckSweeps: what a daemon that was killed during its check left is ended by
// the next one, and is not shown as a session.
func TestSelfCheckSweeps(t *testing.T) {
	dir := tracertest.Dir(t)
	k, err := tracer.Open(tracer.Options{Dir: dir})
	require.NoError(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	left, err := status.StartCanary(canaryCommand)
	require.NoError(t, err)
	defer left.Close()
	root, err := k.Identify(uint32(left.PID()))
	require.NoError(t, err)
	_, err = k.Create(tracer.SessionSpec{Root: root, Name: registry.HiddenName})
	require.NoError(t, err)
	require.NoError(t, k.Close())
	if live, err := tracer.Live(dir, registry.HiddenName); live != 0 || err != nil {
		t.Errorf("it counts as a live session: %d, %v", live, err)
	}
	served := daemontest.Real{Dir: dir, Options: daemon.Options{Canary: canaryCommand}}
	c := served.Serve(t)
	st := wait(t, c, func(st *api.Status) bool { return st.SelfCheck != nil })
	if all, err := c.Sessions(t.Context(), "all", ""); err != nil || len(all.Items) != 0 || !st.SelfCheck.OK || st.Sessions != 0 {
		t.Errorf("%+v %+v %v", st.SelfCheck, all, err)
	}
	nothingLeft(t, dir)
}

// TestSelfCheckFails: a failed check is logged, and shown in the status.
func TestSelfCheckFails(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { w.Options.Canary = canaryCommand })
	w.Until(func() bool {
		return daemontest.Into[api.Status](w.Do("user", "GET", "/v1/status", nil), 200).SelfCheck != nil
	})
	// This kernel knows nothing of the canary.
	st := daemontest.Into[api.Status](w.Do("user", "GET", "/v1/status", nil), 200)
	if st.SelfCheck.OK || st.SelfCheck.Why == "" || st.SelfCheck.At == nil ||
		!slices.ContainsFunc(st.Degraded, func(s string) bool { return strings.Contains(s, "self-check failed") }) {
		t.Errorf("%+v %v", st.SelfCheck, st.Degraded)
	}
}

// TestCanaryIsHidden: the graph follows a canary, and nothing else counts, lists or
// streams it, so that an ephemeral daemon may exit too.
func TestCanaryIsHidden(t *testing.T) {
	w := daemontest.New(t)
	id, err := w.K.Create(tracer.SessionSpec{Root: w.K.Proc(daemontest.Root).Identity, Name: registry.HiddenName})
	require.NoError(t, err)
	w.K.Fork(daemontest.Root, 200, "lngtest-canary")
	w.Resync(registry.CauseMember)
	w.K.AllRead()
	require.Equal(t, w.Service.Count(), 0)
	var known, hidden bool
	err = w.Service.Registry.Read(func(v registry.View) {
		n, ok := v.Graph().Node(w.K.Proc(200).Identity)
		known, hidden = ok && n.Session == id, v.Session(id) == nil
	})
	if err != nil || !known || !hidden {
		t.Errorf("the graph knows it: %v, nobody else: %v; %v", known, hidden, err)
	}
	if l := daemontest.Into[api.Sessions](w.Do("root", "GET", "/v1/sessions?state=all", nil), 200); len(l.Items) != 0 {
		t.Errorf("%+v", l.Items)
	}
	if end := w.Service.Ring.End(); end != w.Service.Ring.Began() {
		t.Errorf("%d events", end-w.Service.Ring.Began())
	}
}

// TestNoNameLikeTheCanarys: no caller can have its session hidden.
func TestNoNameLikeTheCanarys(t *testing.T) {
	w := daemontest.New(t)
	w.Add(100, daemontest.Root, 0, "lngtest-root")
	w.Do("root", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 100}, Name: registry.HiddenName}).Refused(api.CodeBadRequest)
}
