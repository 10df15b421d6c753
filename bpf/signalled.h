/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Signals that kill or stop a member. The hook sees every signal of the host, in the
 * sender's context or in an interrupt, with the siglock of the process that gets it, and
 * after the kernel has decided about it. So the first tests are on the signal and on what
 * the kernel has just read of the process: where an entry to the kernel changes the page
 * table, one look into a map costs as much as all of these.
 */
#ifndef LINEAGE_SIGNALLED_H
#define LINEAGE_SIGNALLED_H

#include "current.h"
#include "death.h"
#include "listen.h"
#include "room.h"

/* enum of include/trace/events/signal.h */
#define TRACE_SIGNAL_DELIVERED 0
#define TRACE_SIGNAL_LOSE_INFO \
	4 /* delivered, but the process does not learn the sender */

#define SIG(n) (1U << (n))
#define NEVER_KILL (SIG(SIGCHLD) | SIG(SIGURG) | SIG(SIGWINCH))
#define STOPS (SIG(SIGSTOP) | SIG(SIGTSTP) | SIG(SIGTTIN) | SIG(SIGTTOU))
/* Requests to end, which a process may handle. */
#define ASKS (SIG(SIGHUP) | SIG(SIGINT) | SIG(SIGQUIT) | SIG(SIGTERM))
#define FAULTS                                                                   \
	(SIG(SIGILL) | SIG(SIGTRAP) | SIG(SIGBUS) | SIG(SIGFPE) | SIG(SIGSEGV) | \
	 SIG(SIGSYS))

/* A fault, or with a core dump: then the process is marked only when it takes the signal. */
#define MARKED_LATE (FAULTS | SIG(SIGABRT) | SIG(SIGXCPU) | SIG(SIGXFSZ))

static inline bool is_one_of(int sig, u32 set)
{
	return (u32)sig < 32 && set >> sig & 1;
}

/* The process's handler of the signal, or SIG_IGN; 0: none. */
static inline u64 handler_of(struct task_struct *t, int sig)
{
	u64 action = (u64)BPF_CORE_READ(t, sighand);
	u64 handler = 0;

	if (!action)
		return 0;
	action += bpf_core_field_offset(struct sighand_struct, action);
	action += (u64)((u32)(sig - 1) & 63) *
		  bpf_core_type_size(struct k_sigaction);
	action += bpf_core_field_offset(struct k_sigaction, sa.sa_handler);
	bpf_probe_read_kernel(&handler, sizeof(handler), (void *)action);
	return handler;
}

/*
 * The sender is the current process, unless the kernel sent it on its own: then there
 * is no siginfo but 1, or its code is above 0. A process may send such a code only to
 * itself. Other codes it may choose.
 */
static inline u8 sender_of(u64 info, int sig, bool itself)
{
	int code = 0;

	if (info == 1)
		return SENDER_KERNEL;
	if (info)
		bpf_probe_read_kernel(
			&code, sizeof(code),
			(void *)info + bpf_core_field_offset(struct kernel_siginfo,
							     si_code));
	if (code > 0 && is_one_of(sig, FAULTS))
		return itself ? SENDER_FAULT : SENDER_KERNEL;
	if (code > 0)
		return code <= POLL_HUP ? SENDER_IO : SENDER_KERNEL;
	return code == SI_TIMER || code == SI_ASYNCIO ? SENDER_TIMER :
							SENDER_PROCESS;
}

static __attribute__((noinline)) int describe_sender(struct sent *s)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct sent *first;
	struct entry *e;

	s->by.tgid = current_tgid();
	s->by.start = current_start();
	s->facts.uid = BPF_CORE_READ(t, cred, euid.val);
	bpf_get_current_comm(s->facts.comm, sizeof(s->facts.comm));
	e = entry_at(s->by.tgid);
	/* It may be dead, if its exit sends it. */
	if (!e || (e->start & (ENTRY_TEARING - 1)) != s->by.start)
		return 0;
	s->session = e->session & ~SESSION_DEAD;
	/* An owner, as lineage run is one, passes on what it gets: who sent it that? */
	if (!(e->flags & FLAG_OWNER) || s->by.start == s->start)
		return 0;
	first = signal_to(s->by.tgid, s->by.start);
	if (!first || first->signal != s->signal ||
	    s->time - first->time > HANDLED_NS)
		return 0;
	s->from = first->from;
	s->by = first->by;
	s->session = first->session;
	s->facts = first->facts;
	s->flags |= SENT_PASSED;
	return 0;
}

static inline bool is_out_of_time(struct signal_struct *s)
{
	u64 used = s->cputimer.cputime_atomic.utime.counter +
		   s->cputimer.cputime_atomic.stime.counter;

	return used / 1000000000 >= s->rlim[RLIMIT_CPU].rlim_max;
}

/*
 * Why the kernel sent it. Without siginfo it sends what the current process does by its exit
 * or in another system call than kill(), and with 1 what nobody asked for.
 */
static __attribute__((noinline)) int tell_cause(struct sent *s, u64 info,
						struct task_struct *t)
{
	struct task_struct *by = (void *)bpf_get_current_task();
	bool traces = t->ptrace && BPF_CORE_READ(t, parent) == by;
	bool exits = BPF_CORE_READ(by, flags) & PF_EXITING;
	bool itself = (u32)t->tgid == current_tgid();

	if (s->from == SENDER_PROCESS && !info) {
		if (exits)
			s->from = SENDER_PARENT;
		else if (s->signal == SIGKILL &&
			 !traces) /* else it is PTRACE_KILL */
			s->from = SENDER_CGROUP;
		else if (itself)
			s->from = SENDER_KERNEL;
	}
	if (s->from != SENDER_KERNEL || s->signal != SIGKILL)
		return 0;
	if (itself && is_out_of_time(t->signal)) {
		s->from = SENDER_LIMIT;
	} else if (exits) {
		bool tracer = traces && t->ptrace & PT_EXITKILL;

		if (!tracer &&
		    pid_in_own_namespace(BPF_CORE_READ(by, group_leader)) != 1)
			return 0;
		describe_sender(s);
		s->from = tracer ? SENDER_TRACER : SENDER_NAMESPACE;
	}
	return 0;
}

/*
 * Ours: the flag is set before a pass sends the signal. Below level 3 a process of ours
 * sends it.
 */
static inline bool is_ours(const struct entry *to, const struct sent *s)
{
	u32 sent = s->signal == SIGKILL ? FLAG_KILLED :
		   s->signal == SIGTERM ? FLAG_TERMED :
		   s->signal == SIGSTOP ? FLAG_STOPPED :
		   s->signal == SIGCONT ? FLAG_RESUMED :
					  0;
	struct entry *by;

	if (!(to->flags & sent))
		return false;
	if (s->from == SENDER_KERNEL)
		return true;
	by = entered(s->by.tgid, s->by.start);
	return by && by->flags & FLAG_PROTECTED;
}

/* Who sent it, and why. False: it is ours. to is NULL for an outsider. */
static __attribute__((noinline)) int tell_signal(struct sent *s, u64 *ctx, int sig,
						 struct task_struct *t,
						 const struct entry *to)
{
	u64 info = 0;

	/* From the context: the type that the verifier gives it is wrong for 0 and 1. */
	bpf_probe_read_kernel(&info, sizeof(info), ctx + 1);
	s->start = t->group_leader->start_boottime;
	s->time = bpf_ktime_get_boot_ns();
	s->signal = sig;
	s->from = sender_of(info, sig, (u32)t->tgid == current_tgid());
	if (s->from == SENDER_PROCESS)
		describe_sender(s);
	if (to && is_ours(to, s))
		return false;
	tell_cause(s, info, t);
	return true;
}

/* Has the kernel decided that the process dies of it? */
static inline bool is_final(struct task_struct *t, int sig)
{
	return t->signal->flags & SIGNAL_GROUP_EXIT &&
	       t->signal->group_exit_code == sig;
}

/* An outsider's, if it dies of it: the first, as older kernels send more to who is dying. */
static __attribute__((noinline)) int remember_death(u64 *ctx, int sig,
						    struct task_struct *t)
{
	struct death d = {};
	u64 key;

	if (!is_final(t, sig))
		return 0;
	t = plain(t);
	if (death_of(t, &key))
		return 0;
	d.tgid = t->tgid;
	describe(&d.facts, t);
	tell_signal(&d.sent, ctx, sig, t, NULL);
	bpf_map_update_elem(&deaths, &key, &d, BPF_ANY);
	return 0;
}

static inline void report_stop(u16 type, u32 tgid, const struct entry *to,
			       const struct sent *s)
{
	struct event_stop *e;

	if (!within_limit(to->session, s->time)) {
		count(COUNT_STOP_LIMITED);
		return;
	}
	e = reserve(struct event_stop);
	if (!e)
		return;
	header(&e->h, type, tgid, to->start, to->session, to->flags);
	e->sent = *s;
	bpf_ringbuf_submit(e, wakeup(false));
}

static inline void remember_signal(struct task_struct *t, u32 tgid,
				   struct entry *to, struct sent *s)
{
	struct sent *old = signal_to(tgid, s->start);

	if (old && old->flags & SENT_FINAL)
		return;
	if (old && old->flags & SENT_HANDLED && old->signal == s->signal &&
	    s->from == SENDER_PROCESS && s->by.tgid == tgid &&
	    s->by.start == s->start) {
		old->flags |= SENT_RAISED | s->flags;
		return;
	}
	/* Who sends it again, while the process shuts down, has not caused that. */
	if (old && old->flags & s->flags & SENT_HANDLED &&
	    old->signal == s->signal && s->time - old->time < HANDLED_NS)
		return;
	set_flags(to, FLAG_SIGNALLED);
	if (bpf_map_update_elem(&killers, &tgid, s, BPF_ANY))
		count(COUNT_SENDER_FAILED);
	/* If its exit came first, the exit has not found it. */
	if (t->signal->live.counter <= 0)
		forget_signal(tgid, s->start);
}

/* Not inline: what it keeps on the stack would cost each signal of an outsider. */
static __attribute__((noinline)) int
signalled(u64 *ctx, int sig, struct task_struct *t, struct entry *to)
{
	u32 tgid = t->tgid;
	struct sent s = {};
	bool undoes;

	if (to->start != t->group_leader->start_boottime)
		return 0;
	/* Of an outsider, an owner, only what it may pass on. */
	if (!to->session && !(to->flags & FLAG_OWNER && is_one_of(sig, ASKS)))
		return 0;
	/* It may have taken away a SIGSTOP before that stopped the process. */
	undoes = sig == SIGCONT && demanded(to->session) & PAUSED;
	if (sig == SIGCONT && !undoes && !(t->signal->flags & SIGNAL_CLD_MASK))
		return 0;
	if (sig != SIGCONT && handler_of(t, sig)) {
		if (!is_one_of(sig, ASKS))
			return 0;
		s.flags = SENT_HANDLED;
	}
	if (!tell_signal(&s, ctx, sig, t, to))
		return 0;
	if (sig == SIGCONT) {
		/* Not now: then a stranger's loop would make each hook of the host pass. */
		if (undoes)
			arm(bpf_ktime_get_ns() + HANDOVER_NS);
		report_stop(EVENT_CONTINUE, tgid, to, &s);
	} else if (is_one_of(sig, STOPS)) {
		report_stop(EVENT_STOP, tgid, to, &s);
	} else {
		if (is_final(t, sig))
			s.flags |= SENT_FINAL;
		remember_signal(t, tgid, to, &s);
	}
	return 0;
}

/*
 * Does the process survive the signal? If it was fatal, the kernel would have marked the
 * process by now, unless something delays that.
 */
static inline bool survives(struct task_struct *t, int sig)
{
	if (is_one_of(sig, ASKS | STOPS | MARKED_LATE) || t->ptrace)
		return false;
	if (t->signal->flags & (SIGNAL_GROUP_EXIT | SIGNAL_STOP_STOPPED))
		return false;
	return !(t->blocked.sig[0] >> ((sig - 1) & 63) & 1);
}

/* Returns whether the process may die of the signal, or stop. */
static inline bool on_signal(u64 *ctx, int sig, struct task_struct *t, int result)
{
	struct entry *to;

	if (is_one_of(sig, NEVER_KILL))
		return false;
	if (sig != SIGCONT) {
		if (result != TRACE_SIGNAL_DELIVERED &&
		    result != TRACE_SIGNAL_LOSE_INFO)
			return false;
		if (survives(t, sig))
			return false;
	}
	to = entry_at(t->tgid);
	if (to)
		signalled(ctx, sig, t, to);
	if (config.deaths && !(to && to->session))
		remember_death(ctx, sig, t);
	return sig != SIGCONT;
}

#endif
