//go:build linux

package main

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/internal/vm/boot"
)

// A cell is one kernel in one configuration, and what is run in it.
type cell struct {
	name   string
	series string // of the kernel, as named in fetch-kernels.sh
	why    string // why it is worth its time

	suites []suite

	arch   string // as Go calls it; "" is amd64
	append string // added to the kernel's command line, instead of boot.LSM
	cpus   int    // 0: 1
	memory int    // MiB, 0: 1536
	cgroup string // "v1"; else version 2
	proc   string // options of /proc
	pidMax int
	// untracked: lineage refuses this host, with exit code 7.
	untracked bool
}

// A suite is the test binary of one package, and which of its tests to run.
type suite struct {
	dir     string
	only    string // expressions of tests
	except  string
	env     []string
	timeout time.Duration
	part    string   // its name, unless it is the whole package
	needs   []string // programs of this system
}

func (s suite) name() string {
	if s.part != "" {
		return s.part
	}
	return path.Base(s.dir)
}

func (s suite) named(part string) suite {
	s.part = part
	return s
}

func (s suite) with(env ...string) suite {
	s.env = append(append([]string{}, s.env...), env...)
	return s
}

func (s suite) tests(only ...string) suite {
	s.except = ""
	s.only = oneOf(only)
	return s
}

func oneOf(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

var (
	verifier = suite{dir: "tracer", part: "verifier", only: "^TestVerifierBudget$", timeout: 10 * time.Minute}
	basics   = suite{dir: "tracer", part: "basics", only: oneOf(basicTests),
		except: "/^baseline$", timeout: 20 * time.Minute}
	tracer = suite{dir: "tracer", except: verifier.only + "|" + basics.only + "|/^baseline$",
		timeout: time.Hour}
	enforcer = suite{dir: "enforcer", timeout: 10 * time.Minute}
	// The daemon's other tests use a kernel made of Go.
	daemon  = suite{dir: "daemon", only: "^TestReal", timeout: 30 * time.Minute}
	cgroups = suite{dir: "daemon/cgroup", part: "cgroups", only: "^TestReal",
		timeout: 10 * time.Minute, needs: []string{"head"}}
	holdings  = suite{dir: "daemon/holdings", only: "^TestReal", timeout: 20 * time.Minute}
	selfcheck = suite{dir: "daemon/status", part: "selfcheck", only: "Real$", timeout: 20 * time.Minute}
	// What an end means while the daemon is dead; an agent that its own tool calls kill; and limits of the kernel.
	e2e = suite{dir: "internal/e2e", only: "^(TestEndsWithoutDaemon|TestSpare|TestLimits)$", timeout: time.Hour}
	// Every row, at the kernel's own level, with a requested end.
	escapes = suite{dir: "internal/e2e/escapes", only: "^TestEscapes$///^root_alive$", timeout: 2 * time.Hour, env: []string{"LNGTEST_ROUNDS=1"}}
	// The same with a cgroup for each session, which has to go, too.
	limited = escapes.named("escapes with limits").with("LNGTEST_RUN=--memory 1GiB --cpus 2 --max-tasks 20000")
	// Commands that are put into containers.
	containers = suite{dir: "internal/e2e/brokers", part: "containers", only: "^TestRunc", timeout: 20 * time.Minute,
		needs: []string{"find", "rmdir", "runc"}}
)

// basicTests show in a minute or two whether sessions are kept and ended at all, with
// the programs for this kernel.
var basicTests = []string{
	"TestOpen", "TestSessionLife", "TestEvents", "TestRootExitEndsMembers", "TestRootExitWithoutTracer", "TestGrace",
	"TestNested", "TestReconcile", "TestPinsOutliveTheTracer", "TestCountsDoNotDrift",
}

// bothSides also runs the tests with the programs for old kernels, which a new one
// loads as well.
func (s suite) bothSides() suite {
	s.except = verifier.only + "|" + basics.only + "/^best$"
	return s
}

// everything is what a kernel must pass in its usual configuration.
var everything = []suite{verifier, basics, tracer, enforcer, daemon, cgroups, holdings,
	selfcheck, e2e, escapes, limited, containers}

const (
	withoutBPF      = "lsm=landlock,lockdown,yama,integrity,apparmor"
	integrity       = boot.LSM + " lockdown=integrity"
	confidentiality = boot.LSM + " lockdown=confidentiality"
	hardened        = boot.LSM + " sysctl.net.core.bpf_jit_harden=2"
)

// short is what the other point releases of a series must pass: a backport can break the verifier.
var short = []suite{verifier, basics}

// cells is not the full product: a configuration is tested where it can make a
// difference.
var cells = []cell{
	{name: "5.10", series: "5.10", suites: slices.Concat(everything, []suite{faults}),
		why: "the oldest kernel with what tracking needs"},
	{name: "6.1", series: "6.1", suites: slices.Concat(everything, []suite{faults}),
		why: "Debian 12, and the newest without task iterators in BPF"},
	{name: "6.12", series: "6.12", suites: everything,
		why: "Debian 13, and the newest long-term kernel that cannot send signals from BPF"},
	{name: "6.16", series: "6.16", suites: []suite{verifier, basics, tracer, e2e},
		why: "the first whose exit hook can end a session"},
	{name: "6.18", series: "6.18", suites: everything,
		why: "a long-term kernel with everything, its tracepoints not preemptible"},
	{name: "7", series: "7",
		suites: []suite{verifier, basics, tracer.bothSides(), enforcer, daemon, cgroups, holdings,
			selfcheck, e2e, escapes, limited, containers},
		why: "the newest of Debian's backports; tracepoints are preemptible"},
	{name: "6.18-rt", series: "6.18-rt", suites: []suite{verifier, basics, tracer, e2e}, cpus: 2,
		why: "PREEMPT_RT, which takes no signal in the exit hook: the only level 3 that Debian has"},
	{name: "6.18-arm64", series: "6.18-arm64", arch: "arm64", suites: []suite{verifier, basics}, cpus: 2,
		why: "the other architecture"},

	{name: "6.19", series: "6.19", suites: short,
		why: "newest point release"},
	{name: "7.1", series: "7.1", suites: short,
		why: "the first with CLONE_AUTOREAP and CLONE_PIDFD_AUTOKILL; newest point release"},
	{name: "5.10 oldest", series: "5.10-oldest", suites: short,
		why: "oldest point release that Debian serves"},
	{name: "6.1 oldest", series: "6.1-oldest", suites: short,
		why: "oldest point release"},
	{name: "6.12 oldest", series: "6.12-oldest", suites: short,
		why: "oldest point release"},
	{name: "6.16 oldest", series: "6.16-oldest", suites: short,
		why: "oldest point release"},
	{name: "6.18 oldest", series: "6.18-oldest", suites: short,
		why: "oldest point release"},
	{name: "6.19 oldest", series: "6.19-oldest", suites: short,
		why: "oldest point release"},
	{name: "7.1 oldest", series: "7.1-oldest", suites: short,
		why: "oldest point release"},
	{name: "6.12 bpf_jit_harden=2", series: "6.12", append: hardened, suites: short,
		why: "Bottlerocket hardens the compiler of programs, for root too"},
	{name: "6.18 bpf_jit_harden=2", series: "6.18", append: hardened, suites: short,
		why: "the same, with the larger programs"},
	{name: "6.18 hidepid=2", series: "6.18", proc: "hidepid=2", suites: []suite{basics, daemon, selfcheck},
		why: "users see no processes of others in /proc"},

	{name: "5.10 without bpf in lsm=", series: "5.10", append: withoutBPF, suites: []suite{basics, refusers},
		why: "an LSM program attaches there and never runs"},
	{name: "6.12 without bpf in lsm=", series: "6.12", append: withoutBPF, suites: []suite{basics, refusers},
		why: "level 2 without the LSM program that refuses forks"},
	{name: "6.18 lockdown=integrity", series: "6.18", append: integrity, suites: []suite{basics, refusers},
		why: "what a host with secure boot has"},
	{name: "6.1 lockdown=confidentiality", series: "6.1", append: confidentiality, untracked: true,
		why: "BPF may not read the kernel's memory: doctor has to say so"},
	{name: "6.18 lockdown=confidentiality", series: "6.18", append: confidentiality, untracked: true,
		why: "the same, new"},
	{name: "6.1 cgroup v1", series: "6.1", cgroup: "v1", suites: []suite{basics, cgroupRows},
		why: "hosts of that age still have it; the freezer holds SIGKILL back"},
	{name: "6.18 cgroup v1", series: "6.18", cgroup: "v1", suites: []suite{cgroupRows},
		why: "the same, where the kernel ends sessions without the daemon"},
	{name: "6.18 4 CPUs", series: "6.18", cpus: 4, pidMax: 131072, memory: 4096,
		suites: []suite{storms, mixed, races, many},
		why:    "races between CPUs; more processes than the usual pid_max allows"},
	{name: "7 preempt=full 4 CPUs", series: "7", append: boot.LSM + " preempt=full", cpus: 4,
		suites: []suite{basics, storms, mixed, races},
		why:    "the kernel skips programs that are preempted: the second writers have to see what they miss"},
}

var (
	// Also with the root killed, and with the daemon killed.
	cgroupRows = escapes.named("cgroup rows").tests("TestEscapes").with("LNGTEST_ROWS=1,5,25,26,28,29,36")
	races      = escapes.named("races").tests("TestEscapes").with("LNGTEST_ROWS=11,14,20,21,22,38",
		"LNGTEST_ROUNDS=3")
	storms = tracer.named("storms").tests("TestCountsDoNotDrift").with("LNGTEST_ROUNDS=60")
	mixed  = tracer.named("mixed").tests("TestEverythingAtOnce", "TestTakeOverInStorm",
		"TestAdoptWhileForking").with("LNGTEST_ROUNDS=10")
	refusers = tracer.named("refusers").tests("TestRefuser", "TestForkOfTheCondemned", "TestSelfProtect.*",
		"TestGuard.*", "TestCrossing.*", "TestPdeathsig", "TestReparent", "TestDeathToldTwice")
	// Each call of a helper fails in turn; in tracer one of each place does.
	faults = suite{dir: "tracer", part: "faults", only: "^TestFaults$", except: "/^baseline$",
		timeout: 2 * time.Hour, env: []string{"LNGTEST_FAULTS=all"}}
	many = tracer.named("many members").tests("TestManyMembers").with("LNGTEST_MEMBERS=20000",
		"LNGTEST_SLOW=30")
)
