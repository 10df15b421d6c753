/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the kernel side and user space share: entries, sessions, verbs and events. Every
 * struct is naturally aligned, with its padding declared; bpf2go turns them into the Go
 * types.
 */
#ifndef LINEAGE_LINEAGE_H
#define LINEAGE_LINEAGE_H

#include "kernel.h"

#define MAX_SESSIONS 16384
#define MAX_DEPTH 8 /* sessions on one chain */
#define NAME_LEN 64
#define COMM_LEN 16
#define FILENAME_MAX_LEN 256
#define ARGV_MAX_LEN 4096
#define TRACE_MAX_LEN 64
#define AGENTS_PER_UID 4096 /* open sessions of agents, for each uid but root */
#define ROOT_SLOTS 512 /* of MAX_SESSIONS, that no other user's agents take */
#define REASON_LEN 200
#define PATH_LEN 256 /* of a cgroup */
#define HOOK_SIGNALS \
	512 /* signals that one pass inside a hook may send, and as many SIGSTOPs */

/*
 * The start of an entry whose process was counted as dead, if the delete failed then: as
 * it is no process's, the entry is stale, and the next look at this PID deletes it.
 */
#define START_COUNTED 1

/*
 * A dead member's entry stays until it is reaped. Its start has ENTRY_DEAD, with
 * ENTRY_TEARING while its memory, files and ports may not be gone. It is ENTRY_DEAD alone
 * while a program counts the process as reaped; that program then deletes the element. Its
 * session has SESSION_DEAD, from before its death is counted: no move swaps it any more
 * (baseline: after it, as a claim keeps moves out).
 */
#define ENTRY_DEAD (1ULL << 63)
#define ENTRY_TEARING (1ULL << 62)
#define SESSION_DEAD (1ULL << 63)

/* The least exit code of a program that a signal has ended: it may have caught that. */
#define CODE_INTERRUPTED 128

/* Identifies a process for good: a PID alone is reused, the pair is not. */
struct identity {
	u64 start; /* group leader's start_boottime, ns */
	u32 tgid; /* initial PID namespace */
	u32 pad;
};

/* Which process made another one, and for which tool call. Identities have padding there. */
struct origin {
	u64 start;
	u32 tgid;
	u32 call; /* 0: none, or it is not known which */
};

enum entry_flags {
	FLAG_PROTECTED = 1 << 0, /* never signalled by a pass */
	FLAG_OWNER = 1 << 1, /* its death ends the sessions that it owns */
	FLAG_ROOT = 1 << 2,
	FLAG_CLIENT =
		1
		<< 3, /* `clients` may have the session of a command that it asked for */
	FLAG_SPARED =
		1
		<< 4, /* a mark named it as an agent: its calls are its own, see guard.h */
	FLAG_DAEMON = 1 << 7, /* protected by self-protection */
	/* What was sent, in a byte of its own: see set_flags. */
	FLAG_UNKILLED =
		1 << 8, /* born condemned where it could not be signalled */
	FLAG_TERMED = 1 << 9, /* a pass sent SIGTERM */
	FLAG_KILLED = 1 << 10, /* it was sent SIGKILL */
	/* By the hook on signals alone. */
	FLAG_SIGNALLED = 1 << 16, /* `killers` may have who sent it a signal */
	/* Of a pause, see pause.h. */
	FLAG_STOPPED = 1 << 24, /* it was sent SIGSTOP, and no SIGCONT since */
	FLAG_RESUMED = 1 << 25, /* it was sent SIGCONT */
};

enum evidence {
	EVIDENCE_NONE,
	EVIDENCE_ROOT,
	EVIDENCE_FORK,
	EVIDENCE_ADOPTED,
	EVIDENCE_RECONCILED,
};

/* An entry's evidence is its kind, and in the bits above it the source. */
#define EVIDENCE(kind, source) ((kind) | (source) << 8)

enum source {
	SOURCE_NONE, /* the hook itself */
	SOURCE_PARENT, /* the kernel's parent was a member when it was adopted */
	SOURCE_RULE, /* an agent rule matched at exec */
	SOURCE_REQUEST, /* a request named it */
	SOURCE_ENV, /* LINEAGE_TOKEN in its environment */
	SOURCE_UNIT, /* a unit that a member asked for */
	SOURCE_CONTAINER, /* a container that a member asked for */
	SOURCE_SOCKET, /* a broker forked it after a member had connected */
	SOURCE_COOKIE, /* a variable that other tools mark their processes with */
	SOURCE_SID,
	SOURCE_PGRP,
	SOURCE_CGROUP,
	SOURCE_JOIN, /* it was put into a container from outside */
};

/*
 * The file that a process executes. The address alone is reused once no process runs
 * the file, and number and device alone are not unique: btrfs has one device for all
 * its subvolumes. User space never shows it.
 */
struct file_id {
	u64 inode; /* kernel address; 0: unknown */
	u64 number;
	u32 device;
	u32 generation;
};

/*
 * A process that was entered, by tgid. The tgid is unique from birth to group death,
 * and survives an exec from a thread, which task storage does not.
 *
 * start also decides who counts the death: the program that swaps it for 0 (baseline:
 * claims.h). A late writer's element may hold another process by then, but never again
 * one with this start.
 */
struct entry {
	u64 start;
	u64 session; /* 0: entered as owner or protected only */
	u64 since; /* boottime ns at which it was entered */
	struct origin
		creator; /* the call changes in an agent's entry, and births inherit it */
	u32 flags;
	u32 evidence;
	struct file_id
		exe; /* by the exec hook; as it was found if no exec was seen */
};

/* What is ours: a map by its id, or an inode of the pins by device and number. */
struct own_key {
	u32 device; /* 0: a map */
	u32 id;
};

enum state {
	STATE_FREE,
	STATE_ACTIVE,
	STATE_ENDING,
	STATE_CONDEMNED,
	STATE_EMPTY,
	/*
	 * Its members were released. It has no effect any more, not on nested sessions
	 * either. Its record stays until these are gone.
	 */
	STATE_DISSOLVED,
};

enum cause {
	CAUSE_NONE,
	CAUSE_ROOT_EXIT,
	CAUSE_OWNER_EXIT,
	CAUSE_END,
	CAUSE_MAX_LIFETIME,
	CAUSE_MAX_PROCESSES,
	CAUSE_MAX_RSS,
	CAUSE_IDLE,
	CAUSE_ANCESTOR,
	CAUSE_EXPIRED,
	CAUSE_RELEASED, /* its members were released */
	CAUSE_HALT,
};

enum session_flags {
	SESSION_KEEP_ON_ROOT_EXIT = 1 << 0,
	SESSION_KEPT = 1 << 1, /* its root was handed over from another session */
	SESSION_AGENT = 1 << 2, /* opened by an exec */
	SESSION_DRIFTED = 1 << 3, /* a walk had to correct its live count */
	SESSION_JOINED = 1 << 4, /* opened for a container, see put_in() */
	/* Its rule says whether it is guarded; without either, GUARD_ALL does. */
	SESSION_GUARDED = 1 << 5,
	SESSION_UNGUARDED = 1 << 6,
	SESSION_SPARES =
		1 << 7, /* its root and agents from its members, see guard.h */
	SESSION_REFUSES =
		1 << 8, /* and what would end them is refused, not only recorded */
	SESSION_CGROUP = 1 << 9, /* it has a cgroup of its own, see moved.h */
};

/* The counts of a session. Hooks write them, user space never does. */
struct session {
	u64 id; /* slot | random << 32; 0: free */
	u64 parent; /* immutable */
	struct identity root; /* immutable */
	struct identity owner; /* immutable */
	u64 created; /* boottime, ns */
	s64 live; /* of the subtree, as are all fields below */
	s64 dying;
	s64 held; /* PIDs: of the live, and of the dead that were not waited for */
	u64 forks;
	u64 peak;
	u64 emptied; /* boottime ns at which live last fell to 0; 0: never */
	u64 listen_window; /* of an outermost session, as the next field */
	u64 listens; /* in that window */
	u64 left; /* how often a client that asked for it was interrupted */
};

/*
 * The decisions about a session. status is state | cause << 8 in one word, so that the
 * first cause wins together with its state.
 */
struct ctl {
	u64 id;
	u32 status;
	u32 flags;
	u64 grace; /* ns */
	u64 deadline; /* CLOCK_MONOTONIC ns, a resume must not kill; 0: none */
	u64 ended_at; /* boottime ns */
	u64 expires; /* boottime ns, a suspend counts; 0: never */
	u64 max_rss; /* bytes; user space checks it, and idle */
	u64 idle; /* ns */
	u64 paused; /* boottime ns since when; 0: it is not */
	u64 halt; /* the halt of this time ends it, once it is in force; 0: none */
	u32 max_processes;
	u32 uid;
	u32 rule; /* of an agent's session: the rule of struct agent */
	u32 over; /* baseline: a birth found the session above max_processes */
	u32 nested; /* sessions nested directly in it: its record leaves after theirs */
	u32 unentered; /* children of members that run without an entry: hooks count them */
	u8 name[NAME_LEN];
};

enum agent_flags {
	AGENT_NESTS = 1 << 0, /* opens a session inside another session, too */
	AGENT_EXACT =
		1 << 1, /* a rule needs nothing but this name: a halt refuses it */
};

/* What a session gets that an exec under this name (comm) opens. */
struct agent {
	u64 grace; /* as in ctl */
	u64 max_lifetime;
	u64 max_rss;
	u64 idle;
	u32 max_processes;
	u32 session_flags;
	u32 rule;
	u32 flags;
};

enum looks {
	LOOK_NAMES = 1 << 0, /* `agents` is not empty */
	LOOK_JOINS =
		1 << 1, /* a process that was put into a container, see put_in() */
	LOOK_MAINS = 1 << 2, /* the process with which a container begins */
	LOOK_TRACES = 1 << 3, /* TRACEPARENT of an agent's children */
};

enum halt_mode {
	HALT_NONE,
	HALT_DRAIN, /* agents that are in no session die at their exec */
	HALT_ALL, /* all agents do */
};

/* Which sessions keep their members' signals inside, see guard.h. */
enum guard {
	GUARD_ANY = 1 << 0, /* there may be one */
	GUARD_ALL = 1 << 1, /* all do, unless their rule says otherwise */
	GUARD_REFUSES =
		1 << 2, /* what would leave is refused, not only recorded */
};

/* User space writes it, mode last. Sessions that it ends are marked before, see ctl. */
struct halt {
	u64 since; /* boottime, ns */
	u32 mode;
	u32 uid; /* of who asked for it */
	u8 reason[REASON_LEN];
};

/* Of the verb "end", in the flags. */
#define END_AT_HALT \
	1 /* once the halt whose time is in `grace` is in force: it ends all at once */

/*
 * due: 0 nothing, 1 a pass is due now, else the earliest deadline in CLOCK_MONOTONIC
 * ns. Every fork, exec and exit on the host reads due and due_boot first.
 */
struct shared {
	u64 due;
	u64 due_boot; /* earliest max_lifetime that ends, boottime ns; 0: none */
	u64 recount; /* CLOCK_MONOTONIC ns from which on reaped processes may be searched for again */
	u64 filter; /* session that the snapshot is limited to, 0: all */
	u64 adopting; /* session whose root's descendants are being entered; 0: none */
	s64 taken; /* slots that are not in free_slots: a queue has no count */
	u32 polling; /* the reader polls: do not wake it for each event */
	u32 agents; /* what each exec is checked for: enum looks */
	u32 cut; /* a pass inside a hook left out processes, and none was complete since */
	u32 adopting_uid; /* only processes of this uid - 1 are being entered; 0: of any */
	u32 guard; /* enum guard */
	u32 spares; /* a session with SESSION_SPARES has been here */
	struct halt halt;
};

/* The answer of the verb "runs". */
enum runs {
	RUNS_FILE = 1 << 0, /* the process executes that file */
	RUNS_INSIDE =
		1 << 1, /* it is in a user namespace other than the initial one */
};

/* Arguments and results of a verb; user space holds a lock around it. */
struct verb_args {
	u64 session; /* in, or out of create */
	struct identity root; /* start 0: the process that has the PID now */
	struct identity owner;
	u64 random;
	u64 grace;
	u64 max_lifetime; /* ns, 0: none */
	u64 max_rss;
	u64 idle;
	u32 cause;
	u32 max_processes;
	u32 uid;
	u32 flags;
	u64 from; /* the session to move out of */
	u32 rule;
	u32 evidence;
	u8 name[NAME_LEN];
	/* results */
	u32 visited;
	u32 sent;
	u32 failed;
	u32 unsent; /* left to user space, below level 3 */
	u32 more;
	u32 added;
	u32 removed;
	s32 live; /* members that the walk met */
	/* of the baseline object */
	u64 forks; /* in: of the session, before the walk */
	s32 err; /* of a walk, which returns nothing */
	u32 cleared; /* in: flags that mark takes away */
	u32 calls; /* in: mark sets the call, too */
	u32 call;
};

enum event_type {
	EVENT_BIRTH = 1,
	EVENT_EXEC,
	EVENT_EXIT,
	EVENT_REPARENT,
	EVENT_REAPED,
	EVENT_SESSION,
	/* 7 is user space's own, as are 10 and 11. */
	EVENT_LISTEN = 8,
	EVENT_UNLISTEN,
	EVENT_STOP = 12,
	EVENT_CONTINUE,
	EVENT_CROSSING,
	EVENT_MOVED,
};

struct event_header {
	u16 type;
	u16 cpu;
	u32 flags; /* of the entry */
	u64 seq; /* a failed reserve uses one up, too */
	u64 time; /* boottime, ns */
	struct identity process;
	u64 session;
};

/* What the events and the snapshot tell of a process: see describe(). Where it is, comm is aligned as a u64. */
struct facts {
	u32 uid; /* effective */
	u8 comm[COMM_LEN];
};

struct event_birth {
	struct event_header h;
	struct identity creator;
	struct identity parent; /* real_parent: differs after CLONE_PARENT */
	u64 cgroup;
	u32 evidence;
	struct facts facts;
};

/* Followed by filename_len bytes, then argv_len, then trace_len: emitted at real length. */
struct event_exec {
	struct event_header h;
	u64 cgroup;
	u16 filename_len; /* without NUL */
	u16 argv_len;
	struct facts facts;
	u32 truncated;
	u16 trace_len; /* without NUL; 0: no TRACEPARENT was looked for, or found */
	u16 pad;
};

struct event_exit {
	struct event_header h;
	u64 cpu_time; /* ns */
	u64 max_rss; /* pages */
	u32 status; /* as wait(2) gives it */
	u32 killed; /* it is the first part of an event_killed */
};

enum sender {
	SENDER_NONE,
	SENDER_PROCESS,
	SENDER_KERNEL, /* a terminal, a timer, a limit, or not known */
	SENDER_FAULT, /* the process itself, by what it executed */
	SENDER_OOM, /* the OOM killer */
	/* A timer or asynchronous I/O. A process may claim this, too: the code is the sender's. */
	SENDER_TIMER,
	SENDER_CGROUP = 7, /* a write to cgroup.kill; 6 is lineage's */
	SENDER_PARENT, /* its exit: PR_SET_PDEATHSIG */
	SENDER_TRACER, /* its exit: PTRACE_O_EXITKILL */
	SENDER_NAMESPACE, /* the exit of PID 1 in it */
	SENDER_LIMIT, /* of the process's own CPU time */
	SENDER_IO, /* a file that signals the process: F_SETOWN */
};

enum sent_flags {
	SENT_FINAL = 1 << 0, /* with it the kernel decided that the process dies */
	SENT_HANDLED = 1 << 1, /* the process had a handler */
	SENT_RAISED = 1 << 2, /* and later sent the same signal to itself */
	SENT_PASSED = 1 << 3, /* an owner got it first, and passed it on */
};

/* A signal, and who sent it. */
struct sent {
	u64 start; /* of the process that it was sent to */
	u64 time; /* boottime, ns */
	struct identity by; /* if a process is behind it */
	u64 session; /* the sender's; 0: none */
	u8 signal; /* 0: none was recorded */
	u8 from; /* enum sender */
	u16 flags;
	struct facts facts; /* of the sender, which chooses its comm */
};

/* What a process in no session died of. */
struct death {
	struct sent sent;
	u32 tgid;
	struct facts facts;
};

/* An exit of a process that was sent a signal. */
struct event_killed {
	struct event_exit x;
	struct sent killer;
};

/* A signal that stops a member, or SIGCONT to one that was stopped. */
struct event_stop {
	struct event_header h;
	struct sent sent;
};

/* A member's signal that leaves its guarded session. */
struct event_crossing {
	struct event_header h; /* of the sender */
	struct identity to;
	u64 session; /* of the receiver; 0: none */
	u8 signal;
	u8 refused;
	u16 pad;
	struct facts facts; /* of the receiver */
};

/* A member came into another cgroup (version 2). */
struct event_moved {
	struct event_header h;
	u64 cgroup;
	struct identity by; /* who put it there, or itself */
	u64 session; /* of that process; 0: none */
	struct facts facts; /* of that process */
	u32 pad;
	u8 path[PATH_LEN]; /* of the cgroup, cut; empty: it was born there */
};

struct event_reparent {
	struct event_header h;
	struct identity from;
	struct identity to;
};

struct event_reaped {
	struct event_header h;
};

struct event_session {
	struct event_header h;
	u32 state;
	u32 cause;
};

/* A TCP socket that a member listens on. */
struct listener {
	u64 session; /* the member's when it began to listen */
	struct identity
		process; /* it called listen(2); others may hold the socket too */
	u64 since; /* boottime, ns */
	u16 family; /* AF_INET, or AF_INET6 */
	u16 port; /* 0: the kernel chooses it in listen(2) */
	u32 pad;
	u8 address[16]; /* network order; the first 4 bytes if AF_INET */
};

struct event_listen {
	struct event_header h; /* process and session of the listener */
	u64 socket; /* kernel address, never shown to users; reused after the close */
	struct listener listener;
};

enum {
	SEEN_DEAD = 1 << 0, /* no live thread */
	SEEN_ZOMBIE = 1 << 1, /* and only the PID is left */
	SEEN_KTHREAD = 1 << 2,
	SEEN_THREAD =
		1
		<< 3, /* only process.tgid and cpu_time count: add it to its process */
	SEEN_KILLED = 1 << 4, /* it is being killed, or is in exit_group() */
	SEEN_STOPPED = 1 << 5, /* by a signal, all its threads */
	SEEN_STOPPING = 1 << 6, /* that, or about to be */
};

/* One record of the snapshot. */
struct seen {
	struct identity process;
	struct identity parent;
	struct entry entry; /* start 0: none */
	u64 cgroup;
	u64 cpu_time; /* ns, of this thread and of its process's released threads */
	s64 rss; /* pages */
	u64 exec; /* another one after each exec of the process; 0: none since its birth */
	u32 pgid;
	u32 sid;
	u32 threads;
	u32 ns_pid;
	u32 seen_flags;
	struct facts facts;
};

/* Counters, per CPU. The names are the metric labels; see counters.go. */
enum counter {
	COUNT_SEQ, /* events emitted or tried */
	COUNT_LOST, /* of these, the ring had no room for */
	COUNT_ENTER_FAILED, /* a member's child could not be entered */
	COUNT_STALE, /* an entry of an earlier process with the PID */
	COUNT_MISSED_BIRTH, /* the first writer of a birth was skipped */
	COUNT_MISSED_DEATH, /* the first writer of a death was skipped */
	COUNT_RECONCILED, /* entered by the reconcile pass */
	COUNT_SIGNAL_FAILED, /* a signal that could not be sent */
	COUNT_SIGNAL_BUSY, /* irq_work slot busy, left due */
	COUNT_NEWBORN_KILLED,
	COUNT_NEWBORN_UNKILLED,
	COUNT_READ_FAILED, /* filename or argv could not be read */
	COUNT_DRIFT, /* a live count that a pass had to correct */
	COUNT_DEPTH, /* sessions nested too deep */
	COUNT_DELETE_FAILED,
	COUNT_AGENT_REFUSED, /* an exec under an agent's name that opened no session */
	COUNT_FORK_REFUSED, /* of a condemned member */
	COUNT_SELF_DENIED, /* attempts of members against the daemon and its pins */
	COUNT_NO_SESSION, /* an entry whose session did not exist, repaired */
	COUNT_LISTEN_FAILED, /* no room to remember a listening socket */
	COUNT_LISTEN_LIMITED, /* not remembered: its session had too many in a short time */
	COUNT_SENDER_FAILED, /* no room to remember who sent a signal */
	COUNT_STOP_LIMITED, /* stops not reported: its session had too many in a short time */
	COUNT_AGENT_HALTED, /* agents that died at their exec because of a halt */
	COUNT_SIGNAL_OUTSIDE, /* signals that left a guarded session */
	COUNT_SIGNAL_REFUSED, /* signals that were not allowed to */
	COUNT_CROSSING_LIMITED, /* such signals not reported: the session had too many in a short time */
	COUNT_MOVED_LIMITED, /* moves to other cgroups not reported: the session had too many in a short time */
	COUNT_MAX,
};

#endif
