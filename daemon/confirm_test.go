//go:build linux

package daemon

import (
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"golang.org/x/sys/unix"
)

// reusedInside has another user's process take over a PID while the daemon reads
// stat of it: the file is a FIFO until then.
func (w *world) reusedInside(pid, parent uint32) {
	w.Helper()
	stat := w.h.proc.Path(pid, "stat")
	os.Remove(stat)
	if err := unix.Mkfifo(stat, 0o600); err != nil {
		w.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err := os.OpenFile(stat, os.O_WRONLY, 0) // when it is opened for reading
		if err != nil {
			return
		}
		defer f.Close()
		os.Remove(stat)
		w.k.Exit(pid, 0)
		w.host(pid, parent, 1001, "lngtest-another")
		io.WriteString(f, statOf(pid, "a", "R", parent))
	}()
	w.Cleanup(func() {
		if f, err := os.OpenFile(stat, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			f.Close() // it was not read
		}
		<-done
	})
}

// What procfs says of a PID is dropped if the PID was reused meanwhile: the other
// process's parent and uid must not decide, and are not shown.
func TestReusedWhileRead(t *testing.T) {
	t.Run("root of a session", func(t *testing.T) {
		w := newWorld(t)
		w.host(300, userPID, 1000, "lngtest-child")
		w.reusedInside(300, userPID)
		w.do("user", "POST", "/v1/sessions", `{"root":{"pid":300}}`).refused(api.CodeIdentity)
	})
	t.Run("a process outside", func(t *testing.T) {
		w := newWorld(t)
		w.host(300, userPID, 1000, "lngtest-child")
		w.reusedInside(300, userPID)
		w.do("root", "GET", "/v1/processes/300", nil).refused(api.CodeNotFound)
	})
	t.Run("a member", func(t *testing.T) {
		w := newWorld(t)
		s := w.session("user", 300, api.NewSession{})
		w.reusedInside(300, elsePID)
		for _, n := range into[api.Tree](w.do("user", "GET", "/v1/sessions/"+s.ID+"/tree", nil), http.StatusOK).Nodes {
			if n.PID == 300 && (n.Task != "" || n.Cwd != "" || n.Parent != nil && n.Parent.PID == elsePID) {
				t.Errorf("shown of another process: %+v", n)
			}
		}
	})
}
