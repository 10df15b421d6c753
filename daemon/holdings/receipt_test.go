//go:build linux

package holdings_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// holder is what lngtest-holder does: it listens on a port, locks the file,
// says the port, and stays for a minute at most, whatever SIGTERM says.
func holder(path string) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil || unix.Flock(int(f.Fd()), unix.LOCK_EX) != nil {
		return 1
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	time.Sleep(time.Minute)
	return 0
}

// holding is a session over a shell that left a holder behind.
func holding(t *testing.T, c api.Client) (s *api.Session, port int, path string, in io.Closer, cmd *exec.Cmd) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "db")
	s, port, in, cmd = listening(t, c, "(setsid /proc/%d/exe lngtest-holder "+path+" &); read go")
	return s, port, path, in, cmd
}

// listening is a session over a shell that runs this binary, which says on which port it listens.
func listening(t *testing.T, c api.Client, script string) (s *api.Session, port int, in io.Closer, cmd *exec.Cmd) {
	t.Helper()
	s, in, out, cmd := daemontest.Blocked(t, c, "lngtest", fmt.Sprintf(script, os.Getpid()))
	_, err := fmt.Fscanln(out, &port)
	require.NoError(t, err)
	return s, port, in, cmd
}

// checkFreed: the receipt names port and lock as free.
func checkFreed(t *testing.T, r *api.Report, port int, path string) {
	t.Helper()
	if r.Verdict != "clean" || len(r.PortsFreed) != 1 || r.PortsFreed[0].Port != port || r.PortsFreed[0].PID == 0 || len(r.PortsBusy) != 0 {
		t.Errorf("ports: %+v", r)
	}
	if len(r.LocksReleased) != 1 || r.LocksReleased[0].Path != path || r.LocksReleased[0].Type != "flock" || len(r.LocksHeld) != 0 {
		t.Errorf("locks: %+v", r)
	}
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Errorf("the port cannot be taken: %v", err)
	} else {
		l.Close()
	}
}

// TestRealReceipt: a planned end of a session that holds a port and a lock; a client of
// the port, and a process that shares the output, live on. They are not named.
func TestRealReceipt(t *testing.T) {
	ctx := t.Context()
	c := new(daemontest.Real).Serve(t)
	s, port, path, _, cmd := holding(t, c)
	client, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer client.Close()
	output, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", cmd.Process.Pid), os.O_WRONLY, 0)
	require.NoError(t, err)
	late := exec.Command("sleep", "60")
	late.Stdout = output
	require.NoError(t, late.Start())
	defer func() { late.Process.Kill(); late.Wait() }()
	output.Close()

	held, err := c.WhyPort(ctx, "tcp", port)
	if err != nil || len(held.Items) != 1 || held.Items[0].Session == nil || held.Items[0].Session.ID != s.ID || len(held.Items[0].Edges) < 2 ||
		len(held.Items[0].Holds.Ports) != 1 || len(held.Items[0].Holds.Locks) != 0 {
		t.Fatalf("why :%d: %+v %v", port, held, err)
	}
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	file, err := c.WhyPath(ctx, api.PathRef{Path: path, Device: st.Dev, Inode: st.Ino})
	if err != nil || len(file.Items) != 1 || file.Items[0].Process.Ref != held.Items[0].Process.Ref || len(file.Items[0].Holds.Locks) != 1 || len(file.Items[0].Holds.Files) != 1 {
		t.Errorf("why %s: %+v %v", path, file, err)
	}
	why, err := c.Why(ctx, held.Items[0].Process.Ref.String())
	if err != nil || why.Holds == nil || len(why.Holds.Ports) != 1 || len(why.Holds.Locks) != 1 {
		t.Errorf("why PID: %+v %v", why, err)
	}

	plan, err := c.Plan(ctx, s.ID)
	if err != nil || plan.Token == "" || len(plan.Processes) != 2 || plan.RefusedBy != "" {
		t.Fatalf("plan %+v %v", plan, err)
	}
	for _, p := range plan.Processes {
		root := p.PID == cmd.Process.Pid
		if !p.Killable || root != (p.Why == "root") || root != (len(p.Ports)+len(p.Locks) == 0) || len(p.Argv) == 0 {
			t.Errorf("planned: %+v", p)
		}
	}
	again, err := c.Plan(ctx, s.ID)
	if err != nil || again.Token != plan.Token {
		t.Errorf("the same plan has another token: %+v %v", again, err)
	}
	began := time.Now()
	_, err = c.End(ctx, s.ID, api.EndRequest{Now: true, PlanToken: plan.Token})
	require.NoError(t, err)
	r := daemontest.Receipt(t, c, s.ID)
	t.Logf("end and receipt took %v", time.Since(began))
	checkFreed(t, r, port, path)
	if len(r.OutputHeldBy) != 0 {
		t.Errorf("output: %+v", r.OutputHeldBy)
	}
	if len(r.PortsTimeWait) > 1 {
		t.Errorf("TIME_WAIT: %+v", r.PortsTimeWait)
	}
	if _, err := c.WhyPort(ctx, "tcp", port); !code(err, api.CodeNotFound) {
		t.Errorf("why :%d afterwards: %v", port, err)
	}
	if _, err := c.WhyPath(ctx, api.PathRef{Path: path}); !code(err, api.CodeNotFound) {
		t.Errorf("why %s afterwards: %v", path, err)
	}
}

// TestRealReceiptOfTheKernel: the kernel ended the session within its root's exit; what
// the last look saw is in the receipt.
func TestRealReceiptOfTheKernel(t *testing.T) {
	ctx := t.Context()
	c := new(daemontest.Real).Serve(t)
	s, port, path, in, cmd := holding(t, c)
	err := system.Poll(ctx, func() (bool, error) {
		now, err := c.Leaks(ctx)
		return err == nil && len(now.Items) == 1 && len(now.Items[0].Locks) == 1, err
	})
	require.NoError(t, err)
	in.Close()
	cmd.Wait()
	r := daemontest.Receipt(t, c, s.ID)
	checkFreed(t, r, port, path)
}

func code(err error, want string) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == want
}
