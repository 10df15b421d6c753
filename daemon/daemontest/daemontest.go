//go:build linux

package daemontest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/access/accesstest"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// Daemon is a daemon over a kernel made of Go. Callers are distinguished by the address
// that they bind.
type Daemon struct {
	*testing.T
	K        *kerneltest.Kernel
	Gates    Gates
	Host     daemon.Host
	Options  daemon.Options // of the first start, and of a restart
	Dir      string
	Socket   string
	Instance system.Instance
	Service  *daemon.Service
	Hup      chan os.Signal // asks for the policy to be read again
	Stop     func() error
	Done     <-chan error // why it stopped
	Readers  sync.Map     // PIDs of callers in the group that reads everything
	conns    atomic.Int64
}

// The PIDs of the callers, all children of the shell 20.
const (
	Shell   = 20
	Root    = 21 // uid 0
	User    = 22 // uid 1000
	Else    = 23 // uid 1001
	Reader  = 24 // uid 1002, in the group that reads everything
	Away    = 25 // uid 0, in another PID namespace
	Hidden  = 26 // uid 0, in a PID namespace that cannot be read
	grouped = 777
)

// Self is the PID of the daemon: no process of the host that runs the tests has such a one, and a test
// may give every other one away.
const Self = 1<<22 + 1

// Callers are the PIDs by the names that tests use.
var Callers = map[string]uint32{"root": Root, "user": User, "else": Else,
	"reader": Reader, "away": Away, "hidden": Hidden}

// Reverse is the variable with which these daemons attach their hooks in reverse.
const Reverse = "LNGTEST_REVERSE"

// Option changes a daemon before it starts.
type Option func(*Daemon)

// WithPolicy gives the daemon a policy file. Its first line, the version, is added.
func WithPolicy(text string) Option {
	return func(d *Daemon) {
		d.Options.Policy = filepath.Join(d.Dir, "policy.yaml")
		d.WritePolicy(text)
	}
}

// WithBoot sets the id of the boot.
func WithBoot(id string) Option {
	return func(d *Daemon) {
		procfstest.Files(d, string(d.Host.Proc), map[string]string{"sys/kernel/random/boot_id": id + "\n"})
	}
}

// WithoutHistory puts a file where the history's directory would be.
func WithoutHistory(d *Daemon) {
	require.NoError(d, os.WriteFile(d.Socket+".state", []byte("in the way"), 0o600))
}

// New starts a daemon, which stops when the test ends.
func New(t *testing.T, options ...Option) *Daemon {
	t.Helper()
	d := &Daemon{T: t, K: kerneltest.New(), Dir: t.TempDir(), Hup: make(chan os.Signal)}
	d.Socket = filepath.Join(d.Dir, "s")
	var err error
	if d.Instance, err = system.InstanceOf(d.Socket); err != nil {
		t.Fatal(err)
	}
	d.Host = daemon.Host{
		Manager: &system.Manager{},
		Open:    func(tracer.Options) (daemon.Kernel, error) { d.K.Reopen(); return &fenced{d.K, &d.Gates}, nil },
		Unload:  func(string) error { return os.WriteFile(filepath.Join(d.Dir, "unloaded"), nil, 0o600) },
		Proc:    procfs.FS(filepath.Join(d.Dir, "proc")), Group: grouped, PeerOf: d.peerOf, Hup: d.Hup,
		Sockets: func(uint32) ([]attribution.Socket, error) { return nil, nil },
		PID:     Self,
		Hold:    func(pid uint32) (enforcer.Handle, error) { return d.K.Hold(pid) },
		Clock: registry.Clock{
			Monotonic: d.K.Now, Boottime: func() uint64 { return uint64(d.K.Now()) },
			Clock: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		},
		Limits: daemon.DefaultLimits, Period: time.Hour, Reversed: os.Getenv(Reverse) != "",
	}
	d.Options, d.Host.Limits.Before = daemon.Options{Socket: d.Socket, Version: "9.9.9"}, time.Minute
	d.Readers.Store(uint32(Reader), true)
	d.populate()
	for _, o := range options {
		o(d)
	}
	d.Start()
	t.Cleanup(func() {
		_ = d.Stop() // a test that wants to know its error has stopped it
		accesstest.Verify(d, d.Instance.Audit)
	})
	return d
}

// populate adds the daemon's process and those of the callers.
func (d *Daemon) populate() {
	d.Helper()
	d.Add(Self, 1, 0, "lngtest-daemon")
	d.Add(Shell, 1, 0, "lngtest-shell")
	for name, pid := range Callers {
		d.Add(pid, Shell, map[string]uint32{"user": 1000, "else": 1001, "reader": 1002}[name], "lngtest-"+name)
	}
}

// Forget gives the daemon that starts next a kernel without sessions.
func (d *Daemon) Forget() {
	d.Helper()
	d.K = kerneltest.New()
	d.populate()
}

// Start serves; Stop may be called again after it.
func (d *Daemon) Start() {
	d.Helper()
	var applied chan struct{}
	h := d.Host
	h.Serving = func(s *daemon.Service) {
		applied = make(chan struct{}, len(s.Jobs))
		for n, job := range s.Jobs {
			s.Jobs[n] = func(ctx context.Context) {
				job(ctx)
				applied <- struct{}{}
			}
		}
	}
	d.Service, d.Stop, d.Done = serve(d.T, h, d.Options)
	// Only one job returns before the daemon stops: it applies the policy to what runs
	// already, which is not to be what the test starts.
	<-applied
}

// Restart stops the daemon and starts the next one.
func (d *Daemon) Restart() {
	d.Helper()
	d.Applied()
	d.Halt()
	d.Start()
}

// Applied waits until the daemon has applied every event of the kernel: what it has only read it
// may drop when it stops.
func (d *Daemon) Applied() {
	d.Helper()
	d.K.AllRead()
	require.NoError(d, d.Service.Registry.Read(func(registry.View) {}))
}

// Halt stops the daemon, which must not fail.
func (d *Daemon) Halt() {
	d.Helper()
	require.NoError(d, d.Stop())
}

// WritePolicy writes the policy file, which the daemon reads when it is asked to.
func (d *Daemon) WritePolicy(text string) {
	d.Helper()
	require.NoError(d, os.WriteFile(d.Options.Policy, []byte("version: 1\n"+text), 0o600))
}

// Add adds a process that procfs shows too.
func (d *Daemon) Add(pid, parent, uid uint32, comm string) {
	d.Helper()
	d.K.Add(pid, parent, comm)
	d.K.Edit(pid, func(p *kerneltest.Proc) { p.UID = uid })
	d.Proc(pid, parent, uid, comm)
}

// Fork forks a process, which procfs shows too, as one of a user.
func (d *Daemon) Fork(parent, pid, uid uint32, comm string) {
	d.Helper()
	d.K.Fork(parent, pid, comm)
	d.Proc(pid, parent, uid, comm)
}

// In checks the sessions that processes are in.
func (d *Daemon) In(sessions map[uint32]string) {
	d.Helper()
	for pid, want := range sessions {
		if got := d.K.Proc(pid).Session.String(); got != want {
			d.Errorf("pid %d is in session %s, want %s", pid, got, want)
		}
	}
}

// Dead reports whether a process has exited.
func (d *Daemon) Dead(pid uint32) bool {
	p := d.K.Proc(pid)
	return p == nil || p.Dead
}

// Survive checks which of the processes live.
func (d *Daemon) Survive(pids []uint32, want ...uint32) {
	d.Helper()
	if alive := slices.DeleteFunc(slices.Clone(pids), d.Dead); !slices.Equal(alive, want) {
		d.Errorf("alive: %v, want %v", alive, want)
	}
}

// Unsignalled checks that no session was signalled.
func (d *Daemon) Unsignalled() {
	d.Helper()
	if sent := d.K.Signals(); len(sent) != 0 {
		d.Errorf("signals were sent: %+v", sent)
	}
}

// Proc writes what procfs shows of a process.
func (d *Daemon) Proc(pid, parent, uid uint32, comm string) {
	d.Helper()
	procfstest.Files(d, d.Host.Proc.Path(pid, ""), map[string]string{
		"stat": StatOf(pid, "a) R 1", "S", parent),
		"status": fmt.Sprintf("Name:\t%s\nTgid:\t%d\nTracerPid:\t0\nUid:\t%d\t%d\t%d\t%d\nNSpid:\t%d\t7\n",
			comm, pid, uid, uid, uid, uid, pid),
		"comm":    comm + "\n",
		"cmdline": comm + "\x00--flag\x00",
		"cgroup":  "0::/lngtest\n",
	})
	// A link that is there stays.
	_ = os.Symlink("/bin/"+comm, d.Host.Proc.Path(pid, "exe"))
	_ = os.Symlink("/lngtest-cwd", d.Host.Proc.Path(pid, "cwd"))
}

// File writes one file of a process in procfs.
func (d *Daemon) File(pid uint32, name, text string) {
	d.Helper()
	procfstest.Files(d, d.Host.Proc.Path(pid, ""), map[string]string{name: text})
}

// Environ sets the environment that procfs shows of a process.
func (d *Daemon) Environ(pid uint32, environ ...string) {
	d.Helper()
	d.File(pid, "environ", strings.Join(environ, "\x00")+"\x00")
}

// Exe sets the program that procfs shows of a process.
func (d *Daemon) Exe(pid uint32, path string) {
	d.Helper()
	link := d.Host.Proc.Path(pid, "exe")
	os.Remove(link)
	require.NoError(d, os.Symlink(path, link))
}

// StatOf is a process's stat as procfs has it.
func StatOf(pid uint32, comm, state string, parent uint32) string {
	return fmt.Sprintf("%d (%s) %s %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", pid, comm, state, parent)
}

// ID returns the kernel's id of a session.
func (d *Daemon) ID(name string) tracer.SessionID {
	d.Helper()
	all, err := d.K.Sessions()
	require.NoError(d, err)
	for _, s := range all {
		if s.ID.String() == name {
			return s.ID
		}
	}
	d.Fatalf("no session %s", name)
	return 0
}

// RefOf names a process in a request, and Ref in a path.
func (d *Daemon) RefOf(pid uint32) api.Ref {
	id := d.K.Proc(pid).Identity
	return api.Ref{PID: int(id.PID), StartNS: api.U64(id.Start)}
}

func (d *Daemon) Ref(pid uint32) string { return d.RefOf(pid).String() }

// Under makes a process the daemon's parent. The kernel side does not protect it: only
// the guards can refuse.
func (d *Daemon) Under(pid uint32) {
	parent := d.K.Proc(pid).Identity
	d.K.Edit(Self, func(p *kerneltest.Proc) { p.Parent = parent })
}

// Until tries again until the condition holds.
func (d *Daemon) Until(holds func() bool) {
	d.Helper()
	require.Eventually(d, "the condition of this line", holds)
}

// Hold stops the reader of the events while f runs.
func (d *Daemon) Hold(f func()) {
	d.Gates.Reading.Lock()
	defer d.Gates.Reading.Unlock()
	f()
}

// Look has the daemon look at all members, as it does from time to time.
func (d *Daemon) Look() {
	d.Helper()
	d.K.AllRead()
	d.Resync(registry.CauseMember)
}

// Resync has the daemon look at the kernel now.
func (d *Daemon) Resync(cause registry.Cause) *registry.Resync {
	d.Helper()
	r, err := d.Service.Registry.Resync(cause)
	require.NoError(d, err)
	return r
}

// Audit returns the audit log: all of it only after Halt, since it is written in the background.
func (d *Daemon) Audit() string {
	d.Helper()
	text, err := os.ReadFile(d.Instance.Audit)
	require.NoError(d, err)
	return string(text)
}

// Gates can keep the daemon from its kernel.
type Gates struct {
	Reading sync.Mutex   // held: events that were read do not arrive
	Looking sync.RWMutex // held while all processes are walked over
}

type fenced struct {
	daemon.Kernel
	gates *Gates
}

func (g *fenced) Read(ev *tracer.Event) error {
	err := g.Kernel.Read(ev)
	g.gates.Reading.Lock()
	defer g.gates.Reading.Unlock()
	return err
}

func (g *fenced) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	if id == 0 {
		g.gates.Looking.RLock()
		defer g.gates.Looking.RUnlock()
	}
	return g.Kernel.Snapshot(id, each)
}
