/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the sessions' states, roots, owners and deadlines demand of each member. */
#ifndef LINEAGE_JUDGE_H
#define LINEAGE_JUDGE_H

#include "birth.h"

struct pass {
	u64 now; /* CLOCK_MONOTONIC */
	u64 now_boot;
	/* u64, as the verifier generalises only whole stack slots in a loop. */
	u64 visited;
	u64 sent;
	u64 stops; /* of these */
	u64 failed;
	u64 unsent; /* no signals from BPF here: user space sends them */
	u64 limit; /* most processes to signal, 0: all */
	u64 most; /* most processes to visit, 0: all */
	/*
	 * turn counts the visits, but from the present time, and up to last. If it
	 * started from a constant, the verifier would follow every value.
	 */
	u64 turn;
	u64 last;
};

/* Does the halt that is in force end the session? One store of its mode ends all that it marked. */
static inline bool halted(struct ctl *c)
{
	u64 halt = READ_ONCE(c->halt);

	return halt && halt == READ_ONCE(control.halt.since) &&
	       READ_ONCE(control.halt.mode) == HALT_ALL;
}

/* Why an active session has to end now. A later deadline is made due. */
static inline u32 cause_to_end(struct session *s, struct ctl *c, u64 now_boot)
{
	u64 expires = c->expires;

	if (halted(c))
		return CAUSE_HALT;
#ifdef BASELINE
	/* A birth found it over its limit, but could not begin the end. */
	if (READ_ONCE(c->over))
		return CAUSE_MAX_PROCESSES;
#endif
	if (expires && expires <= now_boot)
		return c->flags & SESSION_KEPT ? CAUSE_EXPIRED :
						 CAUSE_MAX_LIFETIME;
	if (!(c->flags & SESSION_KEEP_ON_ROOT_EXIT) && !alive(&s->root))
		return CAUSE_ROOT_EXIT;
	if (s->owner.tgid && !alive(&s->owner))
		return CAUSE_OWNER_EXIT;
	if (READ_ONCE(s->left))
		return CAUSE_OWNER_EXIT;
	if (expires)
		arm_boot(expires);
	return CAUSE_NONE;
}

/*
 * Bring the session's state up to date, and return it. A later deadline is made due.
 * Global, as the next function: the verifier checks them once, not in each turn.
 */
__noinline int judge(u64 id, u64 now, u64 now_boot)
{
	struct session *s = session_of(id);
	struct ctl *c = ctl_of(id);
	u32 state;

	if (!s || !c)
		return STATE_FREE;
	state = STATE(READ_ONCE(c->status));
	if (state == STATE_ACTIVE) {
		u32 cause = cause_to_end(s, c, now_boot);

		if (cause)
			begin_end(id, cause, cause == CAUSE_HALT ? 0 : c->grace);
		state = STATE(READ_ONCE(c->status));
	}
	if (state == STATE_ENDING) {
		u64 deadline = READ_ONCE(c->deadline);

		if (halted(c) || (deadline && deadline <= now)) {
			condemn(id);
			state = STATE(READ_ONCE(c->status));
		} else if (deadline) {
			arm(deadline);
		}
	}
	return state;
}

/*
 * What the member's sessions demand: 0 or a signal. An end that began while the member was
 * paused, inside what ends, kills it; one that began before gives it its grace, stopped.
 */
__noinline int demand(u64 id, u64 since, u32 flags, u64 now, u64 now_boot)
{
	struct session *s;
	struct ctl *c;
	u64 paused = 0;
	int sig = 0;

	for_each_around(id, s, c) {
		u32 state = judge(id, now, now_boot);

		if (kills(state))
			return SIGKILL;
		paused |= READ_ONCE(c->paused);
		if (state == STATE_ENDING && paused)
			return SIGKILL;
		/* Born after the end began, it helps a member to exit: only the grace. */
		if (state == STATE_ENDING && !(flags & FLAG_TERMED) &&
		    (!c->ended_at || since <= c->ended_at))
			sig = SIGTERM;
	}
	if (sig)
		return sig;
	if (paused)
		return SIGSTOP;
	return flags & FLAG_STOPPED ? SIGCONT : 0;
}

/* The signal due for the process: 0 if there is none, or if it is killed or stopped already. */
static inline int due_signal(struct task_struct *t, struct entry *e,
			     struct pass *p)
{
	u64 session;
	int sig;

	if (!e || e->start != t->start_boottime)
		return 0;
	session = READ_ONCE(e->session);
	if (!session || e->flags & FLAG_PROTECTED)
		return 0;
	sig = demand(session, e->since, e->flags, p->now, p->now_boot);
	if (is_killed(plain(t)->signal) ||
	    (sig == SIGSTOP && is_stopping(plain(t)->signal)))
		return 0;
	return sig;
}

#endif
