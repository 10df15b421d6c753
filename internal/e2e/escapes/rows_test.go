//go:build linux

package escapes

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

type row struct {
	number   int
	name     string
	does     string // for the table
	expected string // for the table
	why      string // why it is not tried here; program and all below are empty

	program string          // under testdata/programs, with its arguments
	flags   string          // of run, in addition to the usual ones
	members int             // that report when they are in place
	grace   time.Duration   // of the session
	racy    bool            // try many times
	lazy    bool            // no process reaps before run has ended
	shared  bool            // orphans get the same parent as the host's
	left    bool            // it cannot be ended; the story checks
	beside  bool            // it is not a member: it exits after the end, while the story waits
	outcome api.OutcomeKind // of every member but the root, "" for any

	// rootSignal makes the root exit, or do what ends its session, instead of SIGKILL
	// or the command end.
	rootSignal unix.Signal
	// story runs before the end; the function that it returns, if any, after it.
	story func(*trial) (after func())
}

const second = time.Second

// rows are in the order of their numbers, which other documents use.
var rows = []row{
	{number: 1, name: "plain",
		does: "fork; pause", expected: "killed",
		program: "detach", members: 1, outcome: "kill"},
	{number: 2, name: "bg_orphan",
		does: "fork, fork, the middle one exits", expected: "killed",
		program: "detach orphan", members: 1, outcome: "kill"},
	{number: 3, name: "setpgid",
		does: "fork, setpgid(0, 0)", expected: "killed",
		program: "detach setpgid", members: 1, outcome: "kill"},
	{number: 4, name: "setsid",
		does: "fork, setsid", expected: "killed",
		program: "detach setsid", members: 1, outcome: "kill"},
	{number: 5, name: "daemon",
		does: "fork, setsid, fork, exit, chdir /", expected: "killed",
		program: "daemonise stay", members: 1, outcome: "kill"},
	{number: 6, name: "daemon_noenv",
		does: "the same, then exec with no environment", expected: "killed",
		program: "daemonise clear stay", members: 1, outcome: "kill"},
	{number: 7, name: "env_exec_clear",
		does: "exec with no environment", expected: "killed",
		program: "detach noenv", members: 1, outcome: "kill"},
	{number: 8, name: "env_scrub",
		does: "zeroes over its environment, no exec", expected: "killed",
		program: "detach setsid scrub", members: 1, outcome: "kill"},
	{number: 9, name: "ignore_all",
		does: "TERM, INT, HUP, QUIT ignored and blocked", expected: "SIGKILL needed, after the grace",
		program: "under ignoreterm", members: 1, grace: second / 2, outcome: "kill"},
	{number: 10, name: "slow_term_early",
		does: "leaves 1 s before the grace is over", expected: "by SIGTERM",
		program: "under slowterm 1", members: 1, grace: 2 * second, outcome: "term"},
	{number: 10, name: "slow_term_late",
		does: "would leave 1 s after the grace", expected: "SIGKILL needed",
		program: "under slowterm 2", members: 1, grace: second, outcome: "kill"},
	{number: 11, name: "hop_fast",
		does: "8 times fork and exit every 200 us", expected: "killed",
		program: "hop 8 20 200", racy: true},
	{number: 11, name: "hop_crowd",
		does: "16 times fork and exit without a pause, beside 500 that are idle", expected: "killed",
		program: "hop 16 20 0 500", racy: true},
	{number: 12, name: "hop_slow",
		does: "8 times fork and exit every 5 ms", expected: "killed",
		program: "hop 8 20 5000", racy: true},
	{number: 13, name: "bomb_bounded",
		does: "500 live after setsid", expected: "all killed, summed up",
		program: "bomb 500", outcome: "kill", story: manyInFewLines},
	{number: 14, name: "bomb_active",
		does: "doubles every 60 ms, up to 400", expected: "killed",
		program: "bombactive 400 60", racy: true, outcome: "kill"},
	{number: 15, name: "chain_linear",
		does: "each forks one copy of itself; --max-processes 100", expected: "stopped at 100 (level 2: soon after), all killed",
		program: "chain 300", flags: "--max-processes 100", rootSignal: unix.SIGUSR1, story: stoppedAtLimit},
	{number: 16, name: "respawn_pair",
		does: "two restart each other", expected: "both killed",
		program: "respawnpair", members: 1, grace: second, racy: true},
	{number: 17, name: "respawn_supervisor",
		does: "a supervisor in the session restarts its worker", expected: "both killed",
		program: "respawn", members: 1, outcome: "kill"},
	{number: 18, name: "nested_subreaper",
		does: "a detached subreaper, a double fork below", expected: "killed",
		program: "subreaper", members: 1, outcome: "kill"},
	{number: 19, name: "clone_parent",
		does: "clone(CLONE_PARENT), three deep", expected: "killed",
		program: "cloneparent 3", members: 3, outcome: "kill"},
	{number: 20, name: "vfork_window",
		does: "a child in vfork, its parent blocked", expected: "both killed",
		program: "vforkexec window", members: 1, racy: true, outcome: "kill"},
	{number: 20, name: "posix_spawn",
		does: "posix_spawn", expected: "killed",
		program: "spawn", members: 1, racy: true, outcome: "kill"},
	{number: 21, name: "exec_from_thread",
		does: "exec by one of 8 workers", expected: "killed",
		program: "under threadexec 8", members: 1, racy: true, outcome: "kill"},
	{number: 22, name: "zombie_leader",
		does: "the main thread exits, a worker lives", expected: "killed, which cgroup.kill cannot",
		program: "under zombieleader", members: 1, racy: true, outcome: "kill"},
	{number: 23, name: "sigstopped",
		does: "stopped after setsid", expected: "continued, by SIGTERM",
		program: "stopped", members: 1, grace: second, outcome: "term"},
	{number: 24, name: "ptrace_stopped",
		does: "in ptrace-stop; the tracer ignores SIGTERM", expected: "both killed",
		program: "ptraced", members: 1, grace: second / 2},
	{number: 25, name: "cg_migrate",
		does: "moves to another cgroup", expected: "killed",
		program: "cgroup move {cgroup}", members: 1, outcome: "kill"},
	{number: 26, name: "clone_into_cgroup",
		does: "clone3(CLONE_INTO_CGROUP)", expected: "killed",
		program: "cgroup into {cgroup}", members: 1, racy: true, outcome: "kill"},
	{number: 27, name: "adopt_dbus", why: "not run: nothing here answers on D-Bus"},
	{number: 28, name: "frozen_subcg",
		does: "in a frozen cgroup (version 2)", expected: "killed while frozen",
		program: "cgroup frozen {cgroup}", members: 1, grace: second / 2, outcome: "kill"},
	{number: 29, name: "threaded_cg",
		does: "a thread in a threaded cgroup", expected: "killed, where cgroup.kill is refused",
		program: "cgroup threaded {cgroup}", members: 1, outcome: "kill"},
	{number: 30, name: "nested_pidns",
		does: "init of a PID namespace, ignores SIGTERM", expected: "all inside killed",
		program: "pidns", grace: second / 2},
	{number: 31, name: "userns_setuid",
		does: "another uid; a user namespace", expected: "killed; no other user may",
		program: "otheruser", members: 2, outcome: "kill", story: refusedToNobody},
	{number: 32, name: "pdeath_clear",
		does: "PR_SET_PDEATHSIG cleared, setsid", expected: "killed",
		program: "detach setsid nopdeath", members: 1, outcome: "kill"},
	{number: 33, name: "renamed",
		does: "a kernel thread's name, no arguments", expected: "killed",
		program: "detach setsid rename", members: 1, outcome: "kill"},
	{number: 34, name: "memfd",
		does: "runs from a memfd", expected: "killed, shown as memfd",
		program: "nofile memfd", members: 1, outcome: "kill", story: shown("memfd:lngtest")},
	{number: 34, name: "deleted_exe",
		does: "runs from an unlinked file", expected: "killed",
		program: "nofile deleted", members: 1, outcome: "kill", story: shown("/tmp/lngtest-nofile-")},
	{number: 35, name: "bigmem",
		does: "600 MB to tear down", expected: "killed; clean only when gone",
		program: "bigmem 600", members: 1, outcome: "kill"},
	{number: 36, name: "dstate",
		does: "in D: the vfork parent of a stopped child", expected: "both killed",
		program: "vforkexec window stop", members: 1, outcome: "kill"},
	{number: 36, name: "unkillable",
		does: "frozen by the version 1 freezer", expected: "left, with the reason, exit 6; dies when thawed",
		program: "cgroup frozen1 {freezer}", members: 1, left: true, story: leftUntilThawed},
	{number: 37, name: "zombie_pile",
		does: "500 dead children that their parent does not wait for", expected: "no survivors; named with the parent that must reap",
		program: "under zombies 500", lazy: true, story: zombiesNamed},
	{number: 38, name: "pid_reuse",
		does: "an outsider has the PID of a dead member", expected: "outsider untouched",
		program: "gone", members: 1, racy: true, outcome: "kill", story: recycled},
	{number: 39, name: "pgid_reuse",
		does: "an outsider leads a group with a dead member's number", expected: "outsider untouched",
		program: "gone group", members: 1, racy: true, outcome: "kill", story: recycled},
	{number: 40, name: "root_exits_first",
		does: "the root daemonises a child and exits", expected: "child killed at the root's exit",
		program: "daemonise await", members: 1, outcome: "kill", rootSignal: unix.SIGUSR1},
	{number: 41, name: "root_sigkilled",
		does: "SIGKILL to the root", expected: "the same",
		program: "daemonise stay", members: 1, outcome: "kill", rootSignal: unix.SIGKILL},
	{number: 42, name: "tool_sigkilled",
		does: "forks while no daemon runs", expected: "known to the next daemon, killed",
		program: "grow", story: growWithoutDaemon},
	{number: 43, name: "tmux_secret",
		does: "a window of an older tmux server, with the session's secret", expected: "adopted, killed",
		program: "ask sh {tmux secret}", members: 1, story: brokered("tmux", "env")},
	{number: 43, name: "tmux_proxy",
		does: "the same without the secret; the policy ends weak evidence", expected: "in a related session, ends after it",
		program: "ask sh {tmux}", members: 1, beside: true, story: brokered("tmux", "socket")},
	{number: 44, name: "at",
		does: "a job of at(1)", expected: "adopted, killed",
		program: "ask sh {at}", members: 1, story: brokered("atd", "env")},
	{number: 44, name: "systemd_run", why: "apart: `make test-systemd`, in a VM. cron and docker: `make test-brokers`"},
	{number: 45, name: "socket_activated",
		does: "a worker of a shared server; another session uses it too", expected: "server and workers end with its last user",
		program: "served {dir}/shared start", members: 1, beside: true, story: lastUser},
	{number: 46, name: "pipe_holder",
		does: "holds the root's stdout, the root exits 0", expected: "reader unblocked",
		program: "holdpipe await", members: 1, outcome: "kill", rootSignal: unix.SIGUSR1},
	{number: 47, name: "port_holder",
		does: "listens, leaves 300 ms after SIGTERM; a client outside", expected: "port free; client untouched",
		program: "port 300", grace: 2 * second, outcome: "term", story: portAndClient},
	{number: 48, name: "lock_holder",
		does: "flock, fcntl lock, index.lock", expected: "released",
		program: "lock {dir}", members: 1, outcome: "kill", story: locksReleased},
	{number: 49, name: "innocent_lookalike",
		does: "an outsider with the member's name, argv, cwd and group", expected: "never signalled",
		program: "gone lngtest-gone", members: 1, outcome: "kill", story: lookalike},
	{number: 50, name: "innocent_shared",
		does: "an orphan of another live session, same parent", expected: "never signalled",
		program: "detach orphan setsid", members: 1, shared: true, outcome: "kill", story: sharedParent},
}
