//go:build linux

package attribution_test

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOutputHeldBy: the receipt names processes that the session handed over and that
// still have its output, not those that have it from the session's starter.
func TestOutputHeldBy(t *testing.T) {
	w := newWork(t, "mode: observe\n")
	writes := func(pid uint32) {
		t.Helper()
		require.NoError(t, errors.Join(os.MkdirAll(w.Host.Proc.Path(pid, "fd"), 0o700), os.MkdirAll(w.Host.Proc.Path(pid, "task/self"), 0o700)))
		w.File(pid, "fdinfo/1", "flags:\t01\n")
		require.NoError(t, os.Symlink("pipe:[9]", w.Host.Proc.Path(pid, "fd/1")))
	}
	w.unseen(func() {
		w.outsider(400, daemontest.User, "lngtest-root")
		writes(400)
	})
	s := daemontest.Into[api.Session](w.Do("user", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 400}, GraceMS: daemontest.MS(0)}), http.StatusCreated)
	w.Fork(400, 401, 1000, "lngtest-kept")
	writes(401)
	daemontest.Into[api.Session](w.Keep("user", 401), http.StatusCreated)
	w.unseen(func() {
		w.outsider(402, 1, "lngtest-job", "LINEAGE_TOKEN="+s.Token)
		writes(402)
	})
	w.outsider(403, daemontest.Shell, "lngtest-recipe") // of the same make
	writes(403)
	w.look()
	w.Until(func() bool { return w.in(402) != "" })
	w.K.Exit(400, 0)
	var got []int
	for _, p := range w.Receipt(s.ID).OutputHeldBy {
		got = append(got, p.PID)
	}
	if slices.Sort(got); !slices.Equal(got, []int{401, 402}) {
		t.Errorf("named: %v", got)
	}
}
