//go:build linux

package stage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access/accesstest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// An Instance is the test's own lineage: its socket has its own pins, daemon and
// sessions, apart from the host's.
type Instance struct {
	T           *testing.T
	Dir, Socket string
	daemons     []*Process
}

// New makes an instance without a daemon. When the test ends, its daemon is stopped and
// unloaded, and anything left over is an error.
func New(t *testing.T) *Instance {
	t.Helper()
	dir, err := os.MkdirTemp("", "lngtest-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // other users call it too
	i := &Instance{T: t, Dir: dir, Socket: filepath.Join(dir, "l.sock")}
	t.Cleanup(i.close)
	return i
}

// NewDaemon makes an instance and starts its daemon.
func NewDaemon(t *testing.T) *Instance {
	t.Helper()
	i := New(t)
	i.Daemon()
	return i
}

// Daemon starts a daemon and waits until it answers.
func (i *Instance) Daemon(args ...string) *Process {
	i.T.Helper()
	return i.serve(i.Command(append([]string{"daemon", "--socket", i.Socket}, args...), nil))
}

// Policy writes the instance's policy file, for daemons that get its path.
func (i *Instance) Policy(text string) (path string) {
	i.T.Helper()
	path = filepath.Join(i.Dir, "policy.yaml")
	require.NoError(i.T, os.WriteFile(path, []byte("version: 1\n"+text), 0o644))
	return path
}

// LoggedDaemon is Daemon with more variables, and with its log in a file.
func (i *Instance) LoggedDaemon(log string, env ...string) *Process {
	i.T.Helper()
	cmd := exec.Command("sh", "-c", `exec "$@" 2>"$0"`, log, Lineage, "daemon", "--socket", i.Socket)
	cmd.Env = append(os.Environ(), env...)
	return i.serve(cmd)
}

// serve starts a daemon and waits until it answers.
func (i *Instance) serve(cmd *exec.Cmd) *Process {
	i.T.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as a service manager does
	d := spawn(i.T, cmd)
	i.daemons = append(i.daemons, d) // close stops it, after everything else has ended
	i.Until("daemon that answers", func() bool { return d.Exited() || i.Version() != nil })
	if d.Exited() {
		i.T.Fatalf("daemon: %v", d.Wait())
	}
	return d
}

// In is the same instance, for another test.
func (i *Instance) In(t *testing.T) *Instance {
	return &Instance{T: t, Dir: i.Dir, Socket: i.Socket}
}

// Version is the version of the daemon at the socket; nil if there is none.
func (i *Instance) Version() *api.Version {
	v, err := get[api.Version](i, "/v1/version")
	if err != nil {
		return nil
	}
	return v
}

// Status is what the daemon reports about itself and the kernel.
func (i *Instance) Status() *api.Status {
	i.T.Helper()
	return must[api.Status](i, "/v1/status")
}

// Record is a session, over or not.
func (i *Instance) Record(name string) *api.Session {
	i.T.Helper()
	return must[api.Session](i, "/v1/sessions/"+name)
}

// Receipt waits for the verdict on a session. The request itself does not make the daemon
// check the session.
func (i *Instance) Receipt(id string) *api.Report {
	i.T.Helper()
	r := must[api.Report](i, "/v1/sessions/"+id+"/report?wait="+min(Patience, api.MaxWait).String())
	if r.Verdict == "" {
		i.T.Fatalf("session %s has no verdict within %v: %+v", id, Patience, r)
	}
	return r
}

// Tree is the tree of a session, with its ended processes.
func (i *Instance) Tree(name string) *api.Tree {
	i.T.Helper()
	return must[api.Tree](i, "/v1/sessions/"+name+"/tree?dead=all")
}

// Until polls for something that has no event to wait for.
func (i *Instance) Until(what string, done func() bool) {
	i.T.Helper()
	require.Eventually(i.T, what, done)
}

// Agrees repeats look until the picture is right: the latest events are read a little
// later, and the kernel's parent may come from a snapshot.
func (i *Instance) Agrees(what string, look func() error) {
	i.T.Helper()
	began := time.Now()
	for err := look(); err != nil; err = look() {
		if time.Since(began) > Patience {
			i.T.Fatalf("%s: %v", what, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// NodesOf are the processes of a tree by PID.
func NodesOf(tree *api.Tree) map[int]api.Node {
	nodes := map[int]api.Node{}
	for _, n := range tree.Nodes {
		nodes[n.PID] = n
	}
	return nodes
}

// Pins is where the instance's programs and maps are pinned.
func (i *Instance) Pins() string {
	return fmt.Sprintf("/sys/fs/bpf/lineage-%.4x", sha256.Sum256([]byte(i.Socket)))
}

// close stops the daemon at the socket and checks what is left.
func (i *Instance) close() {
	for range 3 { // a dying run may have started a daemon to finish its work
		v := i.Version()
		if v == nil {
			break
		}
		i.Lineage("daemon", "--socket", i.Socket, "--unload", "--force")
		i.Until("end of the daemon", func() bool { return ProcStatus(v.PID, "Pid") == "" })
	}
	for _, d := range i.daemons {
		d.Stop()
	}
	i.Lineage("daemon", "--socket", i.Socket, "--unload", "--force")
	if _, err := os.Stat(i.Pins()); !errors.Is(err, os.ErrNotExist) {
		i.T.Errorf("pins are left in %s (%v)", i.Pins(), err)
	}
	if _, err := os.Stat(i.Socket); !errors.Is(err, os.ErrNotExist) {
		i.T.Errorf("the socket is left (%v)", err)
	}
	accesstest.Verify(i.T, filepath.Join(i.Dir, "audit.jsonl"))
	if err := os.RemoveAll(i.Dir); err != nil {
		i.T.Error(err)
	}
}

// A Process is a running command with its output.
type Process struct {
	*exec.Cmd
	T        *testing.T
	Out, Err bytes.Buffer
	started  time.Time
	Took     time.Duration
	Held     bool // a process still held its output when it had ended
	done     chan struct{}
}

// Start runs lineage with args, with env added to the test's own.
func (i *Instance) Start(args, env []string) *Process {
	i.T.Helper()
	return Start(i.T, i.Command(args, env))
}

// Command is lineage with args, not started.
func (i *Instance) Command(args, env []string) *exec.Cmd {
	cmd := exec.Command(Lineage, args...)
	cmd.Env = slices.Concat(os.Environ(), []string{"LINEAGE_SOCKET=" + i.Socket}, env)
	cmd.Dir = i.Dir
	return cmd
}

// Start runs a command that the test's end stops.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := spawn(t, cmd)
	t.Cleanup(p.Stop)
	return p
}

func spawn(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, T: t, started: time.Now(), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.Out, &p.Err
	cmd.WaitDelay = time.Second // a survivor may hold the output
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", cmd.Args, err)
	}
	go func() {
		p.Held = errors.Is(cmd.Wait(), exec.ErrWaitDelay)
		p.Took = time.Since(p.started)
		close(p.done)
	}()
	return p
}

// Stop kills the command if it runs.
func (p *Process) Stop() {
	if !p.Exited() {
		_ = p.Process.Kill()
		<-p.done
	}
}

// Terminate sends SIGTERM and waits for the end.
func (p *Process) Terminate() *Process {
	p.T.Helper()
	require.NoError(p.T, p.Process.Signal(syscall.SIGTERM))
	return p.Wait()
}

// Exited reports whether the command has ended, for whatever reason.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits for the command's own end.
func (p *Process) Wait() *Process {
	p.T.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.T.Fatalf("%v did not end within %v; stderr: %s", p.Args, Patience, p.Err.String())
	}
	return p
}

// Code is the exit code of a command that has ended.
func (p *Process) Code() int { return p.ProcessState.ExitCode() }

func (p *Process) String() string {
	return fmt.Sprintf("%v: exit %d\nstdout: %s\nstderr: %s", p.Args[1:],
		p.Code(), p.Out.String(), p.Err.String())
}

// Lineage runs a command to its end.
func (i *Instance) Lineage(args ...string) *Process {
	i.T.Helper()
	return i.Start(args, nil).Wait()
}

// Must runs a command that must exit 0.
func (i *Instance) Must(args ...string) *Process {
	i.T.Helper()
	p := i.Lineage(args...)
	if p.Code() != 0 {
		i.T.Fatal(p)
	}
	return p
}

// Run starts a session over a test program.
func (i *Instance) Run(m *Marker, flags []string, name string, args ...string) *Process {
	i.T.Helper()
	return i.Start(slices.Concat([]string{"run"}, flags, []string{"--", Program(name)}, args), m.Env())
}

// Query runs a command with -o json and reads its document.
func Query[T any](i *Instance, args ...string) *T {
	i.T.Helper()
	p := i.Must(append(args, "-o", "json")...)
	return read[T](i, fmt.Sprint(args), p.Out.Bytes())
}

// Session finds the live session of that name.
func (i *Instance) Session(name string) api.Session {
	i.T.Helper()
	list := Query[api.Sessions](i, "ls")
	for _, s := range list.Items {
		if s.Name == name {
			return s
		}
	}
	i.T.Fatalf("no session %s in %+v", name, list.Items)
	return api.Session{}
}

// End ends the session named and demands a clean receipt.
func (i *Instance) End(flags ...string) *Process {
	i.T.Helper()
	return i.Must(append([]string{"end", "--yes"}, flags...)...)
}

// Finish is End; then no process of m may live, and run returns.
func (i *Instance) Finish(m *Marker, run *Process, flags ...string) {
	i.T.Helper()
	i.End(flags...)
	m.MustBeGone()
	run.Wait()
}

// Listen serves a unix socket with something that is not our daemon.
func (i *Instance) Listen() net.Listener {
	i.T.Helper()
	l, err := net.Listen("unix", i.Socket)
	require.NoError(i.T, err)
	i.T.Cleanup(func() { l.Close() })
	return l
}

// FreeAddr is an address that nothing listens on.
func FreeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
