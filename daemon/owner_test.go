//go:build linux

package daemon_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"golang.org/x/sys/unix"
)

// TestOwnerStoppedLate: an owner that stops while its session ends is continued when the
// session is over. It has to report the result.
func TestOwnerStoppedLate(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(60_000)})
	w.K.Fork(100, 101, "lngtest-child")
	w.K.Edit(101, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	w.K.Exit(100, 0)
	daemontest.Get[api.Session](w, "root", "/v1/sessions/"+s.ID)
	if sent := w.K.Sent(); len(sent) != 0 {
		t.Errorf("sent to an owner that runs: %v", sent)
	}
	w.File(daemontest.User, "stat", daemontest.StatOf(daemontest.User, "a", "T", daemontest.Shell))
	w.K.Exit(101, 0)
	w.Receipt(s.ID)
	w.Until(func() bool { return len(w.K.Sent()) > 0 })
	if sent := w.K.Sent(); len(sent) != 1 || sent[0].To != w.K.Proc(daemontest.User).Identity || sent[0].Signal != unix.SIGCONT {
		t.Errorf("sent %v", sent)
	}
}
