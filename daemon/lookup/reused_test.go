//go:build linux

package lookup_test

import (
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"golang.org/x/sys/unix"
)

// reusedInside has another user's process take over a PID while the daemon reads
// stat of it: the file is a FIFO until then.
func (w *world) reusedInside(pid, parent uint32) {
	w.Helper()
	stat := w.Host.Proc.Path(pid, "stat")
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
		w.K.Exit(pid, 0)
		w.Add(pid, parent, 1001, "lngtest-another")
		io.WriteString(f, daemontest.StatOf(pid, "a", "R", parent))
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
		w.Add(300, daemontest.User, 1000, "lngtest-child")
		w.reusedInside(300, daemontest.User)
		w.Do("user", "POST", "/v1/sessions", `{"root":{"pid":300}}`).Refused(api.CodeIdentity)
	})
	t.Run("a process outside", func(t *testing.T) {
		w := newWorld(t)
		w.Add(300, daemontest.User, 1000, "lngtest-child")
		w.reusedInside(300, daemontest.User)
		w.Do("root", "GET", "/v1/processes/300", nil).Refused(api.CodeNotFound)
	})
	t.Run("a member", func(t *testing.T) {
		w := newWorld(t)
		s := w.Session("user", 300, api.NewSession{})
		w.reusedInside(300, daemontest.Else)
		for _, n := range daemontest.Into[api.Tree](w.Do("user", "GET", "/v1/sessions/"+s.ID+"/tree", nil), http.StatusOK).Nodes {
			if n.PID == 300 && (n.Task != "" || n.Cwd != "" || n.Parent != nil && n.Parent.PID == daemontest.Else) {
				t.Errorf("shown of another process: %+v", n)
			}
		}
	})
}
