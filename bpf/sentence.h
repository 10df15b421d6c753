/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sentence: carry out what the sessions' states demand. A pass walks all processes
 * once, finds for each member what is due to it, and does it. It holds no state of its
 * own: any number of passes may run at once, and a pass that was cut short is finished
 * by the next.
 *
 * Complete together with on_fork() in birth.h: a child is linked into the task list
 * behind its creator before it is entered. The pass reaches the creator, and brings the
 * state up to date, before it reaches the child. A child that is not entered by then
 * reads that state when it is.
 */
#ifndef LINEAGE_SENTENCE_H
#define LINEAGE_SENTENCE_H

#include "judge.h"
#include "signal.h"

#define RETRY_NS 1000000

/* Note a signal that was sent, or not. False: it has to be sent again. */
static inline bool tell_sent(struct task_struct *t, int err, struct pass *p)
{
	if (!err) {
		p->sent++;
	} else if (t->signal->live.counter > 0) {
		p->failed++;
		count(err == -EBUSY ? COUNT_SIGNAL_BUSY : COUNT_SIGNAL_FAILED);
		return false;
	}
	return true;
}

/* Continue a member that was stopped by a pause. */
__noinline int continue_member(struct task_struct *t __arg_trusted, struct pass *p)
{
	struct entry *e = entered(t->tgid, t->start_boottime);

	if (!e || !p || !take_stop(e))
		return 0;
	if (!tell_sent(t, signal_process(t, SIGCONT), p))
		set_flags(e, FLAG_STOPPED);
	if (demanded(READ_ONCE(e->session)) & PAUSED)
		arm(1);
	return 0;
}

/* Stop a member of a paused session. */
__noinline int stop_member(struct task_struct *t __arg_trusted, struct pass *p)
{
	struct entry *e = entered(t->tgid, t->start_boottime);

	if (!e || !p)
		return 0;
	note_stop(e);
	if (tell_sent(t, signal_process(t, SIGSTOP), p))
		p->stops++;
	if (stopped_late(e))
		signal_process(t, SIGCONT);
	return 0;
}

/*
 * A global function, so that the verifier knows nothing of the pass's counts: it would
 * follow each of their values.
 */
__noinline int signal_member(struct task_struct *t __arg_trusted, int sig,
			     struct pass *p)
{
	u32 tgid = t->tgid, mark = sig == SIGKILL ? FLAG_KILLED : FLAG_TERMED;
	struct entry *e = entered(tgid, t->start_boottime);

	if (!e || !p)
		return 0;
	/*
	 * Before the send, as the member may be dead right after it. If the element is
	 * another process's by now, t is dead and takes no signal; at worst the flag
	 * says of the other process that it had its SIGTERM.
	 */
	set_flags(e, mark);
	if (!tell_sent(t, signal_process(t, sig), p))
		clear_flags(e, mark);
	return 0;
}

static inline void visit(struct task_struct *t, struct pass *p)
{
	u32 tgid = t->tgid;
	int sig = due_signal(t, entry_at(tgid), p);
	struct task_struct *ref;

	if (!sig)
		return;
	if (!config.can_signal) {
		p->unsent++;
		return;
	}
	/* No SIGKILL waits for stops of members that somebody continues all the time. */
	if (sig == SIGSTOP && p->limit && p->stops >= p->limit) {
		arm(p->now + HANDOVER_NS);
		return;
	}
	ref = bpf_task_acquire(t);
	if (!ref)
		return;
	if (sig == SIGSTOP)
		stop_member(ref, p);
	else if (sig == SIGCONT)
		continue_member(ref, p);
	else
		signal_member(ref, sig, p);
	bpf_task_release(ref);
}

/* Needs RCU and process context. */
static inline void pass_all(struct pass *p)
{
	struct task_struct *t;
	bool more = false, cut = false;
	u64 again = 0;

	p->now = bpf_ktime_get_ns();
	p->now_boot = bpf_ktime_get_boot_ns();
	p->turn = p->now;
	p->last = p->most ? p->now + p->most : 0;
	for_each_process(t) {
		p->visited++;
		visit(t, p);
		if (p->limit && p->sent >= p->limit + p->stops) {
			more = true;
			break;
		}
		if (p->last && ++p->turn >= p->last) {
			cut = true;
			break;
		}
	}
	if (cut || !more)
		WRITE_ONCE(control.cut, cut);
	if (cut)
		again = p->now + HANDOVER_NS;
	else if (more)
		again = 1;
	else if (
		p->failed) /* not at once: a pass at every fork of the host would be worse */
		again = p->now + RETRY_NS;
	if (again)
		arm(again);
}

/* Take what is due, so that no other pass does. True if something was due. */
static inline bool claim(u64 *due, u64 now)
{
	u64 old = READ_ONCE(*due);

	return old && old <= now && swap(due, old, 0);
}

/*
 * The pass inside a hook, when one is due: the first hook takes it. It is a program of
 * its own on each tracepoint: inside the bookkeeping program its signals would make 7.0
 * skip the very exits that they cause.
 *
 * Up to 6.19 no task is switched on this CPU meanwhile. So on a host with very many
 * processes it leaves the rest to the daemon, which receives the event of the death and
 * makes a pass of its own. If no pass was complete when that is due, there is no
 * daemon: then a hook makes a complete one, however long it takes.
 */
static inline void carry_out(void)
{
	struct pass p = { .limit = HOOK_SIGNALS };
	bool due = false;

	if (!READ_ONCE(control.due) && !READ_ONCE(control.due_boot))
		return;
	/* The kernel refuses signals from a kernel thread, which has no address space. */
	if (bpf_get_current_task_btf()->flags & PF_KTHREAD)
		return;
	if (READ_ONCE(control.due))
		due = claim(&control.due, bpf_ktime_get_ns());
	if (READ_ONCE(control.due_boot))
		due |= claim(&control.due_boot, bpf_ktime_get_boot_ns());
	if (!due)
		return;
	p.most = READ_ONCE(control.cut) ? 0 : config.hook_visits;
	pass_all(&p);
}

#endif
