//go:build linux

package daemon

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/cgroup"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/httpapi"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/signed"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// build makes everything that runs over a kernel, and attaches the features to the
// registry.
func (h Host) build(p parts, o Options) *Service {
	k, r, log, files := p.kernel, p.rules, p.log, cmp.Or(h.Files, "/")
	e := enforcer.New(k, enforcer.Options{Self: p.self, Clock: h.Clock.Monotonic, Proc: h.Proc, Hold: h.Hold})
	reg := registry.New(registry.Options{
		Kernel: k, Enforcer: e, Clock: h.Clock, Proc: h.Proc, Log: log, Period: h.Period,
	})
	s := &Service{
		host: h, parts: p, Rules: r, Registry: reg, Enforcer: e, linger: o.Ephemeral,
		stopping: make(chan struct{}), start: new(status.Start),
	}
	s.Access = access.New(access.Options{
		Kernel: k, Proc: h.Proc, Group: h.Group, Peer: h.PeerOf,
		Clock: h.Clock.Monotonic, Limits: h.Limits.Limits, Audit: p.audit.Add,
		Mode: r.Mode, Redact: r.Redact, Log: log,
	})
	containers := lookup.NewContainerFinder(h.Proc, log)
	ground := registry.Ground{Registry: reg, Kernel: k, Proc: h.Proc, Clock: h.Clock, Log: log}
	groups := cgroup.NewGroups(cgroup.Options{Ground: ground, Choose: h.Cgroups, Returns: r.Returns})
	ruled := rules.Options{Ground: ground, Rules: r, Enforcer: e, Containers: containers, Audit: p.audit.Add, Limit: groups.Gather}
	steward := rules.New(ruled)
	s.Attribution = attribution.New(attribution.Options{
		Options: ruled, Steward: steward, Sockets: h.Sockets, Files: files, Self: p.self,
	})
	held := holdings.New(holdings.Options{
		Ground: ground, Origins: []holdings.Origin{steward.Origin, s.Attribution.Origin},
		PortsWait: func() time.Duration { return r.Policy().Wait.Ports.Std() }, Before: h.Limits.Before,
	})
	s.selfCheck = status.NewCheck(status.CheckOptions{
		Ground: ground, Command: o.Canary, Every: r.Started().Daemon.SelfCheck.Std(), Self: p.self,
	})
	s.Ring = history.NewRing(h.Clock.Boottime()/1000, history.RingSize)
	s.Recorder = history.NewRecorder(history.Options{Ground: ground, Ring: s.Ring, Journal: p.journal, Boot: p.bootID, Redact: r.Redact})
	archive := history.NewArchive(s.Recorder, s.Access)
	find := lookup.New(lookup.Options{Ground: ground, Access: s.Access, Containers: containers})
	lines := stream.Lines{
		Ground: ground, Access: s.Access, Find: find, Heartbeat: h.Limits.Heartbeat, Stopping: s.stopping, Tally: &stream.Tally{},
	}
	started := time.Now().UTC()
	s.status = status.New(status.Options{
		Ground: ground, Access: s.Access, Rules: r, SelfCheck: s.selfCheck, Recorder: s.Recorder, Tally: lines.Tally,
		Version: o.Version, Ephemeral: o.Ephemeral != 0, Started: started, Start: s.start, Audit: p.audit, Near: groups.Near,
	},
		r.Degraded, func() []string { return steward.Unrefused(false) }, steward.Unread, s.selfCheck.Degraded,
		status.Failing("audit records are being lost", p.audit.Err),
		status.Failing("self_protect", func() error { return s.start.SelfProtectErr }),
		s.Recorder.Degraded,
		status.Failing("privileges were not given up", func() error { return s.start.CapabilitiesErr }),
		status.Failing("capabilities are missing", func() error { return s.start.Lacking }),
	)
	claims := attribution.NewMarks(ground, r.Policy)
	does := acts.New(acts.Options{
		Ground: ground, Find: find, Access: s.Access, Enforcer: e, Holdings: held, Freeze: groups.Freeze,
	})
	keeper := &rules.Keeper{Ground: ground, Find: find, Access: s.Access, Rules: r, Steward: steward}
	orders := signed.New(signed.Options{
		Ground: ground, Memory: p.commands, HostKeys: filepath.Join(files, "etc/ssh"), Policy: r.Policy, BootID: p.bootID,
		Find: find, Archive: archive, Access: s.Access, Acts: does, Stopping: s.stopping,
	})
	feed := stream.NewFeed(stream.FeedOptions{Lines: lines, Status: s.status.Watched})
	s.API = httpapi.New(httpapi.Options{
		Ground: ground, Access: s.Access, Enforcer: e, Find: find, Archive: archive, Holdings: held,
		Acts: does, Marks: claims, Groups: groups,
		Events: stream.NewEvents(stream.EventsOptions{
			Lines: lines, Ring: s.Ring, Archive: archive, BootID: p.bootID, Version: o.Version, Started: started,
		}),
		Feed: feed, Status: s.status, Metrics: system.MetricsHandler(s.status.Snapshot),
		Rules: r, Steward: steward, Attribution: s.Attribution,
		Keeper: keeper, Signed: orders, Version: o.Version,
		Send: h.Limits.Send, Stall: h.Limits.Stall, Managed: h.Manager.Present,
		Stopping: s.stopping, Stop: func(unload bool) { s.stop(unload) },
	})
	hooks := []*registry.Hooks{
		claims.Hooks(), held.Hooks(), lookup.NewContainerReader(ground, containers).Hooks(),
		steward.Hooks(), s.Attribution.Hooks(), s.Ring.Hooks(),
		feed.Hooks(), s.Recorder.Hooks(), groups.Hooks(), {Concluding: s.onRecord, Reported: s.recorded},
	}
	if h.Reversed {
		slices.Reverse(hooks)
	}
	reg.Attach(hooks...)
	s.Jobs = []func(context.Context){
		func(ctx context.Context) { e.Run(ctx, reg.Judged) }, reg.Look, held.Run,
		func(ctx context.Context) { reloadOn(ctx, h.Hup, steward, h.Manager) },
		func(ctx context.Context) { guard(ctx, k, h.Proc, p.self.PID, steward.FindRunning, p.log) },
		func(ctx context.Context) { steward.JudgeAgents(ctx, s.Attribution.Find) }, steward.KeepByRule, func(context.Context) { steward.Apply() },
		s.Attribution.Run, feed.Run, claims.Run, groups.Run,
	}
	steward.CarryOut(r.Policy())
	return s
}

func bootID(proc procfs.FS) string {
	b, err := os.ReadFile(string(proc) + "/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func systemClock() registry.Clock {
	boottime := func() uint64 { return uint64(system.Time(unix.CLOCK_BOOTTIME)) }
	return registry.Clock{
		Monotonic: func() time.Duration { return system.Time(unix.CLOCK_MONOTONIC) },
		Boottime:  boottime,
		Clock:     document.Following(time.Now, boottime),
	}
}
