//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// socketFor makes a socket as a service manager does: an existing file is replaced, and
// the socket stays when its maker closes it.
func socketFor(t *testing.T, path string, mode os.FileMode) *os.File {
	t.Helper()
	os.Remove(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer l.Close()
	l.SetUnlinkOnClose(false)
	require.NoError(t, os.Chmod(path, mode))
	f, err := l.File()
	require.NoError(t, err)
	t.Cleanup(func() { f.Close(); os.Remove(path) })
	return f
}

// activated starts a daemon with descriptors from 3 on, as a service manager does:
// LISTEN_PID is the daemon's own PID, which only its own process knows.
func activated(t *testing.T, i *stage.Instance, files ...*os.File) *stage.Process {
	t.Helper()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	cmd := i.Command(nil, []string{fmt.Sprintf("LISTEN_FDS=%d", len(files))})
	cmd.Path = sh
	cmd.Args = []string{"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", stage.Lineage, "daemon", "--socket", i.Socket}
	cmd.ExtraFiles = files
	return stage.Start(t, cmd)
}

// A socket unit that starts while a daemon of `lineage run` is running replaces its
// socket. Two daemons would read one ring: the old one goes, its sessions stay.
func TestSocketActivation(t *testing.T) {
	i := stage.New(t)
	kept := stage.NewMarker(t, i.Dir)
	before := i.Run(kept, []string{"--name", "before"}, "daemonise", "stay")
	kept.Ready()
	old, stays := i.Version(), i.Session("before").ID
	if old == nil || !old.Ephemeral {
		t.Fatalf("version %+v", old)
	}
	f := socketFor(t, i.Socket, 0o600)
	m := stage.NewMarker(t, i.Dir)
	// A client that connects before there is a daemon waits for it, and is checked by its own credentials.
	early := i.Run(m, []string{"--name", "early"}, "daemonise", "stay")
	d := activated(t, i, f)
	m.Ready()
	if s := i.Session("early"); s.UID != os.Getuid() || s.Owner.PID != early.Process.Pid {
		t.Errorf("session %+v of %d", s, early.Process.Pid)
	}
	if s, v := i.Session("before"), i.Version(); s.ID != stays || s.State != "active" || v == nil || v.PID != d.Process.Pid {
		t.Errorf("session %+v, was %s; version %+v of %d", s, stays, v, d.Process.Pid)
	}
	i.Until("end of the old daemon", func() bool {
		return stage.ProcStatus(old.PID, "Pid") == "" || strings.HasPrefix(stage.ProcStatus(old.PID, "State"), "Z")
	})
	if info, err := os.Stat(i.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is not its maker's: %v %v", info, err)
	}
	p := i.Lineage("daemon", "--socket", i.Socket, "--unload", "--force")
	if p.Code() != api.ExitDenied || !strings.Contains(p.Err.String(), "systemctl stop") {
		t.Errorf("unload under a service manager: %v", p)
	}
	if p := i.Lineage("daemon", "--socket", i.Socket); p.Code() != api.ExitFailed ||
		!strings.Contains(p.Err.String(), "a daemon is running as pid") {
		t.Errorf("a second daemon: %v", p)
	}

	// It is started again, on the same socket, over the same session.
	id := i.Session("early").ID
	if d.Terminate(); d.Code() != 0 {
		t.Fatal(d)
	}
	_, err := os.Stat(i.Socket)
	require.NoError(t, err)
	d = activated(t, i, f)
	if s := i.Session("early"); s.ID != id {
		t.Errorf("session %s was %s", s.ID, id)
	}
	i.Finish(m, early, "early")
	i.Finish(kept, before, "before")
	d.Terminate()
	f.Close()
	os.Remove(i.Socket)
}

// A service manager that hardens a daemon gives it its own mount namespace. A path is
// still that of the caller.
func TestOwnMountNamespace(t *testing.T) {
	i := stage.New(t)
	unshare, err := exec.LookPath("unshare")
	require.NoError(t, err)
	cmd := i.Command(nil, nil)
	cmd.Path, cmd.Args = unshare, []string{"unshare", "--mount", stage.Lineage, "daemon", "--socket", i.Socket}
	d := stage.Start(t, cmd)
	i.Until("daemon that answers", func() bool { return d.Exited() || i.Version() != nil })
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--name", "holder"}, "daemonise", "stay")
	m.Ready()
	if p := i.Must("why", m.Path); !strings.Contains(p.Out.String(), "holder") {
		t.Errorf("who holds %s: %v", m.Path, p)
	}
	i.Finish(m, run, "holder")
	d.Terminate()
}
