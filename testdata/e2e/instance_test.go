//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// An instance is a lineage of the test's own: another socket has other pins,
// another daemon and other sessions than the host's.
type instance struct {
	t           *testing.T
	dir, socket string
	daemons     []*process
}

// newInstance makes one without a daemon. When the test ends, its daemon is
// stopped and unloaded, and what is left of it is an error.
func newInstance(t *testing.T) *instance {
	t.Helper()
	dir, err := os.MkdirTemp("", "lngtest-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // other users are callers too
		t.Fatal(err)
	}
	i := &instance{t: t, dir: dir, socket: filepath.Join(dir, "l.sock")}
	t.Cleanup(i.close)
	return i
}

// newDaemon makes an instance and starts its daemon.
func newDaemon(t *testing.T) *instance {
	t.Helper()
	i := newInstance(t)
	i.daemon()
	return i
}

// daemon starts a daemon and waits until it answers.
func (i *instance) daemon(args ...string) *process {
	i.t.Helper()
	d := spawn(i.t, i.command(append([]string{"daemon", "--socket", i.socket}, args...), nil))
	i.daemons = append(i.daemons, d) // close stops it, after everything else has ended
	i.until("daemon that answers", func() bool { return d.exited() || i.version() != nil })
	if d.exited() {
		i.t.Fatalf("daemon: %v", d.wait())
	}
	return d
}

// in is the same instance, failing another test.
func (i *instance) in(t *testing.T) *instance {
	return &instance{t: t, dir: i.dir, socket: i.socket}
}

// version asks who serves the socket; nil if nobody does.
func (i *instance) version() *api.Version {
	v, err := ask(i, api.Client.Version)
	if err != nil {
		return nil
	}
	return v
}

// status is what the daemon says of itself and of the kernel.
func (i *instance) status() *api.Status {
	i.t.Helper()
	s, err := ask(i, api.Client.Status)
	if err != nil {
		i.t.Fatalf("status: %v", err)
	}
	return s
}

// record is a session, over or not.
func (i *instance) record(name string) *api.Session {
	i.t.Helper()
	s, err := ask(i, func(c api.Client, ctx context.Context) (*api.Session, error) { return c.Session(ctx, name) })
	if err != nil {
		i.t.Fatalf("session %s: %v", name, err)
	}
	return s
}

// ask puts one question to the daemon.
func ask[T any](i *instance, question func(api.Client, context.Context) (T, error)) (none T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := api.Dial(ctx, i.socket)
	if err != nil {
		return none, err
	}
	defer c.Close()
	return question(c, ctx)
}

// until looks for something that has no event to wait for.
func (i *instance) until(what string, done func() bool) {
	i.t.Helper()
	for deadline := time.Now().Add(patience); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			i.t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// agrees repeats a look at the picture until it is right: the events of what has
// just happened are read a little later, and the kernel's parent may come from a
// snapshot.
func (i *instance) agrees(what string, look func() error) {
	i.t.Helper()
	began := time.Now()
	for err := look(); err != nil; err = look() {
		if time.Since(began) > patience {
			i.t.Fatalf("%s: %v", what, err)
		}
		<-time.After(5 * time.Millisecond)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		i.t.Logf("figure: %s was right after %v", what, took.Round(time.Millisecond))
	}
}

// nodesOf are the processes of a tree by PID.
func nodesOf(tree *api.Tree) map[int]api.Node {
	nodes := map[int]api.Node{}
	for _, n := range tree.Nodes {
		nodes[n.PID] = n
	}
	return nodes
}

// pins is where the instance's programs and maps are pinned.
func (i *instance) pins() string {
	return fmt.Sprintf("/sys/fs/bpf/lineage-%.8x", sha256.Sum256([]byte(i.socket)))
}

// close stops whoever serves the socket and looks at what is left.
func (i *instance) close() {
	for range 3 { // a dying run may have started one to finish its work
		v := i.version()
		if v == nil {
			break
		}
		i.lineage("daemon", "--socket", i.socket, "--unload", "--force")
		i.until("end of the daemon", func() bool { return status(v.PID, "Pid") == "" })
	}
	for _, d := range i.daemons {
		d.stop()
	}
	i.lineage("daemon", "--socket", i.socket, "--unload", "--force")
	if _, err := os.Stat(i.pins()); !errors.Is(err, os.ErrNotExist) {
		i.t.Errorf("pins are left in %s (%v)", i.pins(), err)
	}
	if _, err := os.Stat(i.socket); !errors.Is(err, os.ErrNotExist) {
		i.t.Errorf("the socket is left (%v)", err)
	}
	if err := os.RemoveAll(i.dir); err != nil {
		i.t.Error(err)
	}
}

// A process is a command under way with what it printed.
type process struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr bytes.Buffer
	started        time.Time
	took           time.Duration
	done           chan struct{}
}

// start runs lineage with args, with env besides the test's own.
func (i *instance) start(args, env []string) *process {
	i.t.Helper()
	return start(i.t, i.command(args, env))
}

func (i *instance) command(args, env []string) *exec.Cmd {
	cmd := exec.Command(lineage, args...)
	cmd.Env = slices.Concat(os.Environ(), []string{"LINEAGE_SOCKET=" + i.socket}, env)
	cmd.Dir = i.dir
	return cmd
}

// start runs a command that the test's end stops.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := spawn(t, cmd)
	t.Cleanup(p.stop)
	return p
}

func spawn(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd, t: t, started: time.Now(), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.WaitDelay = time.Second // a survivor may hold the output
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", cmd.Args, err)
	}
	go func() {
		_ = cmd.Wait()
		p.took = time.Since(p.started)
		close(p.done)
	}()
	return p
}

// stop kills the command if it runs.
func (p *process) stop() {
	if !p.exited() {
		_ = p.Process.Kill()
		<-p.done
	}
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the command's own end.
func (p *process) wait() *process {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%v did not end within %v; stderr: %s", p.Args, patience, p.stderr.String())
	}
	return p
}

func (p *process) code() int { return p.ProcessState.ExitCode() }

func (p *process) String() string {
	return fmt.Sprintf("%v: exit %d\nstdout: %s\nstderr: %s", p.Args[1:], p.code(), p.stdout.String(), p.stderr.String())
}

// lineage runs a command to its end.
func (i *instance) lineage(args ...string) *process {
	i.t.Helper()
	return i.start(args, nil).wait()
}

// must runs a command that has to exit 0.
func (i *instance) must(args ...string) *process {
	i.t.Helper()
	p := i.lineage(args...)
	if p.code() != 0 {
		i.t.Fatal(p)
	}
	return p
}

// run starts a session over a test program.
func (i *instance) run(m *marker, flags []string, name string, args ...string) *process {
	i.t.Helper()
	return i.start(slices.Concat([]string{"run"}, flags, []string{"--", program(name)}, args), m.env())
}

// query runs a command with -o json and reads its document.
func query[T any](i *instance, args ...string) *T {
	i.t.Helper()
	p := i.must(append(args, "-o", "json")...)
	doc := new(T)
	if err := json.Unmarshal(p.stdout.Bytes(), doc); err != nil {
		i.t.Fatalf("%v: %v\n%s", args, err, p.stdout.String())
	}
	return doc
}

// session finds the live session of that name.
func (i *instance) session(name string) api.Session {
	i.t.Helper()
	list := query[api.Sessions](i, "ls")
	for _, s := range list.Items {
		if s.Name == name {
			return s
		}
	}
	i.t.Fatalf("no session %s in %+v", name, list.Items)
	return api.Session{}
}

// end ends the session named and demands a clean receipt.
func (i *instance) end(flags ...string) *process {
	i.t.Helper()
	return i.must(append([]string{"end", "--yes"}, flags...)...)
}

// listen serves a unix socket with something that is no daemon of ours.
func (i *instance) listen() net.Listener {
	i.t.Helper()
	l, err := net.Listen("unix", i.socket)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { l.Close() })
	return l
}
