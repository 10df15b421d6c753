/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the sessions' states, roots, owners and deadlines demand of each member. */
#ifndef LINEAGE_JUDGE_H
#define LINEAGE_JUDGE_H

#include "birth.h"

struct pass {
	u64 now; /* CLOCK_MONOTONIC */
	u64 now_boot;
	u64 next; /* earliest deadline that was met and still runs */
	u64 next_boot; /* the same of max_lifetime */
	/* u64, as the verifier generalises only whole stack slots in a loop. */
	u64 visited;
	u64 sent;
	u64 failed;
	u64 unsent; /* no signals from BPF here: user space sends them */
	u64 limit; /* processes to signal, 0: all */
	u64 most; /* processes to visit, 0: all */
	/*
	 * They are counted from the time to the time and so many: of a number that
	 * the verifier knows it would follow every value.
	 */
	u64 turn;
	u64 last;
};

/* Bring the session's state up to date; give it, and since when it ends. */
static __always_inline u32 judge(struct session *s, struct ctl *c, struct pass *p)
{
	u32 state = STATE(*(volatile u32 *)&c->status);

	if (state == STATE_ACTIVE) {
		u64 expires = c->expires;

#ifdef BASELINE
		/* What a birth found, and could not begin. */
		if (*(volatile u32 *)&c->over)
			begin_end(c, CAUSE_MAX_PROCESSES, c->grace);
#endif
		if (expires && expires <= p->now_boot)
			begin_end(c, c->flags & SESSION_KEPT ? CAUSE_EXPIRED : CAUSE_MAX_LIFETIME,
				  c->grace);
		else if (expires && (!p->next_boot || expires < p->next_boot))
			p->next_boot = expires;
		if (!(c->flags & SESSION_KEEP_ON_ROOT_EXIT) && !alive(&s->root))
			begin_end(c, CAUSE_ROOT_EXIT, c->grace);
		else if (s->owner.tgid && !alive(&s->owner))
			begin_end(c, CAUSE_OWNER_EXIT, c->grace);
		state = STATE(*(volatile u32 *)&c->status);
	}
	if (state == STATE_ENDING) {
		u64 deadline = *(volatile u64 *)&c->deadline;

		if (deadline && deadline <= p->now) {
			condemn(c);
			state = STATE(*(volatile u32 *)&c->status);
		} else if (deadline && (!p->next || deadline < p->next)) {
			p->next = deadline;
		}
	}
	return state;
}

/* Global, so that the verifier looks at it once; before 5.12 none takes a pointer. */
#ifndef BASELINE
#define GLOBAL_WITH_POINTER __noinline
#else
#define GLOBAL_WITH_POINTER static __noinline

__noinline int state_of(u64 id)
{
	struct pass p = { .now = bpf_ktime_get_ns(), .now_boot = bpf_ktime_get_boot_ns() };
	struct session *s = session_of(id);
	struct ctl *c = ctl_of(id);

	return s && c ? judge(s, c, &p) : STATE_FREE;
}
#endif

/* What the member's sessions demand: 0, SIGTERM or SIGKILL. */
GLOBAL_WITH_POINTER int demand(u64 id, u64 since, u32 flags, struct pass *p)
{
	int sig = 0;

	if (!p)
		return 0;
	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);
		struct ctl *c = ctl_of(id);
		u32 state;

		if (!s || !c)
			break;
#ifdef BASELINE
		state = state_of(id);
#else
		state = judge(s, c, p);
#endif
		if (kills(state))
			return SIGKILL;
		/* Who was born after the end began is somebody's last helper: it gets the grace. */
		if (state == STATE_ENDING && !(flags & FLAG_TERMED) &&
		    (!c->ended_at || since <= c->ended_at))
			sig = SIGTERM;
		id = s->parent;
	}
	return sig;
}

/* The signal that the process is due: 0 if none, or if it is being killed already. */
static __always_inline int due_signal(struct task_struct *t, struct entry *e, struct pass *p)
{
	u64 session;
	int sig;

	if (!e || e->start != t->start_boottime)
		return 0;
	session = *(volatile u64 *)&e->session;
	if (!session || e->flags & FLAG_PROTECTED)
		return 0;
	sig = demand(session, e->since, e->flags, p);
	return is_killed(t->signal) ? 0 : sig;
}

#endif
