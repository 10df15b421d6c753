//go:build linux

package daemon

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/branch"
	"github.com/lineage-ebpf/lineage/daemon/commands"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/heldwatch"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/httpapi"
	"github.com/lineage-ebpf/lineage/daemon/leaks"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/marks"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/daemon/plan"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/selfcheck"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/daemon/watch"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// build makes everything that runs over a kernel, and attaches the features to the
// registry.
func (h host) build(p parts, o Options) *service {
	k, r, log := p.kernel, p.rules, p.log
	e := enforcer.New(k, enforcer.Options{Self: p.self, Clock: h.clock.Monotonic, Proc: h.proc, Hold: h.hold})
	own := registry.New(registry.Options{
		Kernel: k, Enforcer: e, Clock: h.clock, Proc: h.proc, Log: log, Hidden: selfcheck.Hidden, Period: h.period,
		PortsWait: func() time.Duration { return r.Policy().Wait.Ports.Std() },
	})
	s := &service{
		parts: p, registry: own, enforcer: e, clock: h.clock, manager: h.manager, linger: o.Ephemeral, flush: h.limits.flush,
		stopping: make(chan struct{}), start: new(status.Start),
	}
	s.access = access.New(access.Options{
		Kernel: k, Proc: h.proc, Group: h.group, Peer: h.peerOf,
		Clock: h.clock.Monotonic, Limits: h.limits.Limits, Audit: p.audit.Add, Mode: r.Mode, Redact: r.Redact, Log: log,
	})
	steward := rules.New(rules.Options{
		Policy: r, Registry: own, Kernel: k, Enforcer: e, Proc: h.proc, Clock: h.clock, Audit: p.audit, Log: log,
	})
	s.attribution = attribution.New(attribution.Options{
		Registry: own, Policy: r, Steward: steward, Kernel: k, Enforcer: e, Proc: h.proc, Files: cmp.Or(h.files, "/"), Self: p.self,
		Clock: h.clock, Audit: p.audit, Log: log,
	})
	s.selfCheck = selfcheck.New(selfcheck.Options{
		Command: o.Canary, Every: r.Started().Daemon.SelfCheck.Std(), Kernel: k, Self: p.self, Registry: own, Clock: h.clock, Proc: h.proc, Log: log,
	})
	s.ring = recent.New(h.clock.Boottime()/1000, recent.Size)
	s.recorder = history.New(own, s.ring, p.journal, p.bootID, h.clock, r.Redact, log)
	archive := history.NewArchive(s.recorder, s.access, k)
	find := lookup.New(lookup.Options{Registry: own, Access: s.access, Kernel: k, Proc: h.proc, Clock: h.clock})
	lines := stream.Lines{
		Stall: h.limits.stall, Heartbeat: h.limits.heartbeat, Stopping: s.stopping, Clock: h.clock, Tally: &stream.Tally{}, Log: log,
	}
	started, growth := time.Now().UTC(), new(leaks.Growth)
	s.status = status.New(status.Options{
		Registry: own, Access: s.access, Rules: r, SelfCheck: s.selfCheck, Recorder: s.recorder, Kernel: k, Tally: lines.Tally,
		Version: o.Version, Ephemeral: o.Ephemeral != 0, Started: started, Start: s.start,
	},
		r.Degraded, s.selfCheck.Degraded,
		status.Failing("audit records are being lost", p.audit.Err),
		status.Failing("self_protect", func() error { return s.start.SelfProtectErr }),
		s.recorder.Degraded,
		status.Failing("privileges were not given up", func() error { return s.start.CapabilitiesErr }),
		status.Failing("capabilities are missing", func() error { return s.start.Lacking }),
	)
	said := marks.New(marks.Options{Registry: own, Kernel: k, Proc: h.proc, Clock: h.clock, Policy: r.Policy})
	feed := watch.New(watch.Options{Lines: lines, Registry: own, Find: find, Status: s.status.Watched})
	s.api = httpapi.New(httpapi.Options{
		Registry: own, Access: s.access, Enforcer: e, Kernel: k, Proc: h.proc, Find: find, Archive: archive, Holds: own.Holds(),
		Plans:    plan.New(plan.Options{Registry: own, Find: find, Enforcer: e, Kernel: k, Holds: own.Holds(), Proc: h.proc, Clock: h.clock}),
		Branches: branch.New(own, k), Marks: said,
		Events: stream.New(stream.Options{
			Lines: lines, Registry: own, Ring: s.ring, Find: find, Archive: archive, BootID: p.bootID, Version: o.Version, Started: started,
		}),
		Feed: feed, Status: s.status, Metrics: metrics.Handler(s.status.Snapshot), Rules: r, Steward: steward, Attribution: s.attribution, Growth: growth,
		SelfCheck: s.selfCheck, Version: o.Version, Send: h.limits.send, Stall: h.limits.stall, Managed: h.manager.Present,
		Stopping: s.stopping, Stop: func(unload bool) { s.stop(unload) }, Log: log,
	})
	held := heldwatch.New(heldwatch.Options{Registry: own, Kernel: k, Clock: h.clock, Every: h.heldPeriod, Log: log})
	own.Attach(said.Hooks(), held.Hooks(), commands.New(own, k, h.proc).Hooks(), steward.Hooks(), s.attribution.Hooks(), s.ring.Hooks(), growth.Hooks(), feed.Hooks(), &registry.Hooks{Reported: s.recorded}, s.recorder.Hooks())
	s.jobs = []func(context.Context){
		func(ctx context.Context) { e.Run(ctx, own.Judged) }, own.Look, held.Run,
		func(ctx context.Context) { reloadOn(ctx, h.hup, steward, h.manager) },
		func(ctx context.Context) { guard(ctx, k, h.proc, p.self.PID, steward.FindRunning, p.log) },
		steward.JudgeAgents, steward.KeepByRule, func(context.Context) { steward.Apply() },
		s.attribution.Run, feed.Run, said.Run,
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
	get := func(id int32) time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(id, &ts); err != nil {
			panic(err) // these clocks exist since 2.6.39
		}
		return time.Duration(ts.Nano())
	}
	boottime := func() uint64 { return uint64(get(unix.CLOCK_BOOTTIME)) }
	return registry.Clock{
		Monotonic: func() time.Duration { return get(unix.CLOCK_MONOTONIC) },
		Boottime:  boottime,
		Clock:     document.Following(time.Now, boottime),
	}
}
