/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The guard: a member's signals that kill or stop stay in its session, where the policy
 * says so. The innermost guarded session around the sender decides, as a signal that
 * leaves an outer one leaves that one first. Such a signal is recorded when it was sent,
 * and refused, where a program on security_task_kill loads, when the policy is enforced.
 *
 * A session may also spare its root, and the agents that marks name: a signal that kills or
 * stops one is recorded, or refused, if it comes from any other member of that session or of
 * one inside.
 *
 * Only a member that is certainly one is refused. Whatever is not known lets the signal
 * pass. Membership is read here and never changed.
 */
#ifndef LINEAGE_GUARD_H
#define LINEAGE_GUARD_H

#include "signalled.h"

/* Does the session keep its members' signals inside? */
static inline bool guards(const struct ctl *c)
{
	u32 flags = c->flags;

	if (STATE(READ_ONCE(c->status)) == STATE_DISSOLVED)
		return false;
	if (flags & (SESSION_GUARDED | SESSION_UNGUARDED))
		return flags & SESSION_GUARDED;
	/* Opened by an exec, and not judged yet: perhaps no rule wants it. */
	if (flags & SESSION_AGENT && !c->rule)
		return false;
	return READ_ONCE(control.guard) & GUARD_ALL;
}

/* The innermost guarded session around a member of this one; 0: none. */
__noinline u64 guard_of(u64 id)
{
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c)
		if (guards(c))
			return id;
	return 0;
}

/*
 * Is the process outside of that session? Not known, so no: of a dead process; of one
 * that its fork hook has not entered yet; and of a member's child without an entry,
 * whose birth was missed.
 */
static inline bool is_outside(struct task_struct *t, u64 guard)
{
	struct task_struct *leader = t->group_leader, *parent;
	struct entry *e = entered(t->tgid, leader->start_boottime);
	u64 id;

	if (e) {
		id = READ_ONCE(e->session);
		return !id || (session_of(id) && !chain_has(id, guard));
	}
	if (t->signal->live.counter <= 0 || is_new(t))
		return false;
	parent = t->real_parent->group_leader;
	e = entered(parent->tgid, parent->start_boottime);
	return !e || !chain_has(e->session, guard);
}

static inline bool is_spared(const struct entry *e, u64 id, u32 tgid)
{
	return e->flags & FLAG_SPARED || is_root(id, tgid, e->start);
}

/* Does the process's session spare it from the current process, a member? One look-up. */
static inline bool spared_from(const struct entry *by, u64 from, u32 tgid,
			       struct task_struct *t, u32 flag)
{
	struct entry *e = entered(t->tgid, t->group_leader->start_boottime);
	struct ctl *c;
	u64 id;

	if (!e || e == by)
		return false;
	id = READ_ONCE(e->session);
	c = ctl_of(id);
	if (!c || !(c->flags & flag) ||
	    STATE(READ_ONCE(c->status)) == STATE_DISSOLVED)
		return false;
	if (!is_spared(e, id, t->tgid) || !chain_has(from, id))
		return false;
	/* The root of a nested session may not: any member can open one. */
	return from != id || !is_spared(by, id, tgid);
}

static inline void report_crossing(const struct entry *e, u32 tgid, u64 id,
				   int sig, struct task_struct *to, bool refused)
{
	u64 now = bpf_ktime_get_boot_ns();
	struct event_crossing *x;
	struct entry *other;

	count(refused ? COUNT_SIGNAL_REFUSED : COUNT_SIGNAL_OUTSIDE);
	if (!within_limit(id, now)) {
		count(COUNT_CROSSING_LIMITED);
		return;
	}
	x = reserve(struct event_crossing);
	if (!x)
		return;
	header_at(&x->h, now, EVENT_CROSSING, tgid, e->start, id, e->flags);
	identify(&x->to, to->group_leader);
	other = entered(x->to.tgid, x->to.start);
	x->session = other ? other->session : 0;
	x->signal = sig;
	x->refused = refused;
	x->pad = 0;
	describe(&x->facts, to);
	bpf_ringbuf_submit(x, wakeup(false));
}

/*
 * Does a signal of the current process leave its guarded session, or is its receiver spared?
 * Then it is reported, and -EPERM is returned, not 1: of the negative of a number the verifier of
 * 6.12 knows nothing, and refuses an LSM program that may return one. mode: GUARD_REFUSES, or GUARD_ANY once it was sent. Not inline, as
 * signalled() is not. An exiting process sends no signal itself: it is its child that asked
 * for one at its parent's death.
 */
static __attribute__((noinline)) int crosses(int sig, struct task_struct *to,
					     u32 mode)
{
	bool refuses = mode == GUARD_REFUSES;
	struct task_struct *self = (void *)bpf_get_current_task();
	u32 tgid = current_tgid();
	struct entry *e = entered(tgid, current_start());
	u64 id, guard;

	to = plain(to);
	if (!e || BPF_CORE_READ(self, flags) & PF_EXITING)
		return 0;
	id = READ_ONCE(e->session);
	if (!READ_ONCE(control.spares) ||
	    !spared_from(e, id, tgid, to,
			 refuses ? SESSION_REFUSES : SESSION_SPARES)) {
		guard = READ_ONCE(control.guard) & mode ? guard_of(id) : 0;
		if (!guard || !is_outside(to, guard))
			return 0;
	}
	report_crossing(e, tgid, id, sig, to, refuses);
	return -EPERM;
}

/* Is there any session that guards or spares, and may the current process be a member? */
static inline bool may_cross(u32 mode)
{
	return (READ_ONCE(control.guard) & mode || READ_ONCE(control.spares)) &&
	       occupied(current_tgid());
}

/* Does the process handle the signal, other than a request to end, or ignore it? */
static inline bool shrugs_off(struct task_struct *t, int sig)
{
	u64 handler = handler_of(t, sig);

	return handler == SIG_IGN || (handler && !is_one_of(sig, ASKS));
}

/* A signal was sent that on_signal() counts. */
static inline void on_sent(u64 *ctx, int sig, struct task_struct *t)
{
	u64 info = 0;

	if (!may_cross(GUARD_ANY) || shrugs_off(t, sig))
		return;
	bpf_probe_read_kernel(&info, sizeof(info), ctx + 1);
	/* Else the current process may be any. */
	if (sender_of(info, sig, false) == SENDER_PROCESS)
		crosses(sig, t, GUARD_ANY);
}

/*
 * Must the current process not send this signal? The kernel's own signals do not come
 * here, but for a USB transfer that ends. That has the credentials of the process that
 * started it, which gets the signal, and the current process may be any.
 */
static inline int refuse_signal(u64 *ctx, struct task_struct *t, int sig)
{
	u64 cred = 1;

	if (!may_cross(GUARD_REFUSES) || sig <= 0 || sig == SIGCONT ||
	    is_one_of(sig, NEVER_KILL) || shrugs_off(t, sig))
		return 0;
	bpf_probe_read_kernel(&cred, sizeof(cred), ctx + 3);
	if (cred)
		return 0;
	return crosses(sig, t, GUARD_REFUSES);
}

#endif
