//go:build linux

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/cgroup"
)

type Options struct {
	Socket      string      // default api.DefaultSocket; it names the instance
	SocketMode  os.FileMode // default 0666: each request is judged by its peer
	SocketGroup string      // that owns the socket; default root's
	// Ephemeral, if not 0, is how long the daemon stays after its last session and client.
	Ephemeral time.Duration
	Level     int    // at most this guarantee level; 0: the policy's, else the best
	Policy    string // the file; default policy.DefaultFile on the default socket, if it exists
	Version   string
	LogFile   string // default: the standard error
	// Canary is a command line to which arguments are appended that it passes to
	// [status.CanaryMain]; without it the daemon makes no self-check.
	Canary []string
}

// ErrMember means that the process that would become the daemon is a member of a session
// of the instance. The daemon could not be ended with that session.
var ErrMember = errors.New("a member of a session may not start the daemon")

// Serve runs the host's daemon until ctx is done or a client stops it. The kernel side,
// sessions included, continues afterwards; an ephemeral daemon, and one that is asked
// to unload, takes it down. An ephemeral daemon on the socket is taken over with its
// sessions.
func Serve(ctx context.Context, o Options) error {
	ready := system.InheritedPipe()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	m, err := system.TheManager(ready)
	if err == nil {
		err = serve(ctx, o, ready, m, hup)
	}
	ready.Report(err)
	if err != nil {
		m.Notify(system.StatusField(err.Error()))
	}
	return err
}

// Host is what a daemon depends on; tests replace parts of it.
type Host struct {
	Open   func(tracer.Options) (Kernel, error)
	Unload func(dir string) error
	Live   func(dir, except string) (int, error) // sessions that are pinned there
	// memberships finds the instances beside dir that have p in one of their sessions.
	Memberships func(dir string, p tracer.Identity) ([]string, error)
	PID         uint32 // of the daemon; default: this process's
	Proc        procfs.FS
	Files       string // the root of its files, default /
	Group       int    // gid of users that may read everything, -1: none
	PeerOf      func(net.Conn) (access.Peer, error)
	Sockets     func(pid uint32) ([]attribution.Socket, error) // of a process; default: as the kernel has them
	Clock       registry.Clock
	Limits      Limits
	Period      time.Duration // of the sampler
	Hup         <-chan os.Signal
	Manager     *system.Manager
	Drop        func(keep ...system.Capability) error     // privileges; nil: keep them
	Hold        func(pid uint32) (enforcer.Handle, error) // default: pidfds
	Cgroups     func() (cgroup.Maker, string, error)      // default: none
	Reversed    bool                                      // the features' hooks are attached in reverse
	Serving     func(*Service)                            // called before anything runs; nil: not called
}

func (h *Host) pid() uint32 { return cmp.Or(h.PID, uint32(os.Getpid())) }

func ThisHost() Host {
	h := Host{
		Open:   func(o tracer.Options) (Kernel, error) { return tracer.Open(o) },
		Unload: tracer.Unload, Live: tracer.Live, Memberships: tracer.Memberships, Proc: "/proc",
		Sockets: func(pid uint32) ([]attribution.Socket, error) { return attribution.Sockets("/proc", pid) },
		Group:   access.Group(), PeerOf: access.PeerOf,
		Clock: systemClock(), Limits: DefaultLimits, Period: time.Second,
		Manager: &system.Manager{}, Cgroups: cgroup.Choose,
	}
	h.Limits.Limits = h.Limits.Fitting()
	return h
}

func serve(ctx context.Context, o Options, ready *system.StartPipe, m *system.Manager,
	hup <-chan os.Signal) error {
	if os.Geteuid() != 0 {
		return tracer.ErrNotRoot
	}
	if ready != nil && o.LogFile == "" {
		i, err := system.InstanceOf(o.Socket)
		if err != nil {
			return err
		}
		o.LogFile = i.Log // where the command that started the daemon looks
	}
	log, closeLog, err := system.OpenLog(o.LogFile, os.Stderr, os.Getenv)
	if err != nil {
		return err
	}
	defer closeLog()
	if err := favour(); err != nil {
		log.Warn().Err(err).Msg("in a storm of forks the daemon may be slow")
	}
	// A thread that the kernel was making just then was missed.
	again := time.AfterFunc(time.Second, func() { _ = favour() })
	defer again.Stop()
	// Systemd has mounted it on its hosts. If mounting fails, Open reports it.
	if mounted, err := tracer.MountBPFFS(system.BPFFS); err == nil && mounted {
		log.Info().Str(system.KeyPath, system.BPFFS).Msg("bpffs mounted")
	}
	h := ThisHost()
	h.Hup, h.Manager, h.Drop = hup, m, system.DropPrivileges
	m.Log = log
	return h.Serve(ctx, o, ready, log)
}

// Serve serves until ctx is done or a client stops the daemon. It reports to ready that
// requests are answered.
func (h Host) Serve(ctx context.Context, o Options, ready *system.StartPipe, log zerolog.Logger) error {
	i, err := system.InstanceOf(o.Socket)
	if err != nil {
		return err
	}
	path, must := policyFile(i, o)
	r, err := rules.Load(path, must, h.Clock)
	if err != nil {
		return err
	}
	o.begin(r.Started())
	log = log.Level(r.LogLevel())
	d, err := h.Manager.Listener(i)
	if err != nil {
		return err
	}
	if d != nil && (o.SocketGroup != "" || o.SocketMode != 0 && o.SocketMode != system.DefaultSocketMode) {
		log.Warn().Str(system.KeySocket, i.Socket).Msg("SocketMode= and SocketGroup= of the socket unit apply, not the daemon's flags")
	}
	lock, alone, err := i.Claim(ctx, system.ClaimOptions{Ephemeral: o.Ephemeral != 0,
		Started: ready != nil, Passed: d != nil})
	if err != nil {
		return err
	}
	defer func() { lock.Release() }() // the lock held at that time
	removeSocket := func() {}
	defer func() {
		removeSocket() // the kernel is released; until alone is released, the socket is ours
		alone.Release()
	}()
	k, err := h.Open(tracer.Options{Dir: i.Pins, Level: o.Level, RingSize: int(r.Started().Daemon.RingSize),
		Deaths: r.Started().Daemon.Deaths == "on"})
	if errors.Is(err, tracer.ErrOtherABI) {
		return fmt.Errorf("%w; end its sessions with the version that made them, or run: lineage daemon --unload --force --socket %s",
			err, i.Socket)
	}
	if err != nil {
		return err
	}
	s, d, err := h.prepare(parts{kernel: k, rules: r, commands: i.Commands, log: log}, i, o, d)
	if err != nil {
		return errors.Join(err, k.Close())
	}
	removeSocket = d.Remove
	s.alone = alone
	s.giveUp(h.Drop, i)
	lock.Release()
	lock = nil
	log.Info().Str(system.KeySocket, i.Socket).
		Int(system.KeyLevel, k.Features().Level).Int(system.KeySessions, s.Count()).Msg("serving")
	ready.Report(nil)
	if h.Serving != nil {
		h.Serving(s)
	}
	lock, unload, err := s.run(ctx, d.UnixListener, i)
	if unload {
		err = errors.Join(err, h.Unload(i.Pins))
	}
	log.Info().Bool(system.KeyUnload, unload).Err(err).Msg("stopped")
	return err
}

// prepare makes a service that has read the kernel's state, and its socket, unless it
// has one.
func (h Host) prepare(p parts, i system.Instance, o Options, d *system.Listener) (*Service,
	*system.Listener, error) {
	err := h.outside(p.kernel, i)
	if err == nil {
		p.self, err = protect(p.kernel, h.pid())
	}
	if err != nil {
		return nil, nil, err
	}
	started := p.rules.Started()
	p.audit, p.bootID = openAudit(i.Audit, p.rules, p.log), bootID(h.Proc)
	p.journal = history.Open(i.History, p.bootID, started.Daemon.History.MaxAge.Std(),
		int64(started.Daemon.History.MaxSize), h.Clock, p.log)
	s := h.build(p, o)
	s.protectSelf(started.SelfProtect)
	if err = s.begin(); err == nil && d == nil {
		if d, err = i.Listen(o.SocketMode, o.SocketGroup); err != nil {
			s.EndRegistry()
		}
	}
	if err != nil {
		s.Recorder.End()
		return nil, nil, errors.Join(err, p.audit.Close())
	}
	return s, d, nil
}

// outside refuses to start a daemon that is a member of a session of any instance of
// this host: without the check it could be one by using another socket.
func (h Host) outside(k Kernel, i system.Instance) error {
	if h.Memberships == nil {
		return nil
	}
	self, err := k.Identify(h.pid())
	if err != nil {
		return fmt.Errorf("identify the daemon: %w", err)
	}
	in, err := h.Memberships(i.Pins, self)
	if err != nil {
		return err
	}
	if len(in) > 0 {
		return fmt.Errorf("%s: %w; run it from outside the session", in[0], ErrMember)
	}
	return nil
}
