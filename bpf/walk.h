/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The verbs for kernels where BPF cannot find or walk tasks. Each is an iter/task
 * program that the kernel calls for every thread, in the order of PIDs, and once
 * without a task when the walk is over. Verbs that need no task are iter/bpf_map_elem
 * programs over the one element of `verb`. They are not raw_tp programs, which
 * BPF_PROG_RUN takes: with a hash without preallocation these make 5.10 warn. The
 * result is in a->err, which user space sets to -ESRCH before.
 */
#ifndef LINEAGE_WALK_H
#define LINEAGE_WALK_H

#include "verbs.h"

/* Carry out the verb when the walk meets the named process. */
static inline void walked(struct verb_args *a, struct task_struct *t,
			  const struct identity *id,
			  long (*each)(struct verb_args *a, struct task_struct *t))
{
	if (a->err == -ESRCH && is_named(t, id))
		a->err = each(a, t);
}

static inline long create_owned(struct verb_args *a, struct task_struct *root)
{
	return a->owner.tgid && !alive(&a->owner) ? -ESRCH : create(a, root);
}

static inline void whois_walked(struct verb_args *a, struct task_struct *t)
{
	if ((u32)t->pid == a->root.tgid)
		a->err = whois(a, t);
}

/* The half of the sentence that needs no signal; user space sends them. */
static inline void sentence_walked(struct verb_args *a, struct task_struct *t)
{
	struct pass p = { .now = bpf_ktime_get_ns(),
			  .now_boot = bpf_ktime_get_boot_ns() };

	a->visited++;
	if (due_signal(t, entry_at(t->tgid), &p))
		a->unsent++;
}

/*
 * Any thread proves its process alive: during an exec by a thread the walk may
 * meet neither the old leader nor the new one as such.
 */
static inline void settle_walked(struct verb_args *a, struct task_struct *t)
{
	struct identity id = { .start = t->group_leader->start_boottime,
			       .tgid = t->tgid };
	struct entry *e;

	a->live += is_member(id.tgid, id.start, a->session) & MEMBER;
	if (t->pid != t->tgid)
		return;
	e = dead_at(&id);
	if (e && is_gone(t))
		torn_down(&id, e);
}

/* a->forks was read before the walk. */
static inline void settle(struct verb_args *a)
{
	struct session *s = session_of(a->session);
	struct ctl *c = ctl_of(a->session);

	if (!s || !c) {
		a->err = -ENOENT;
		return;
	}
	close_if_empty(a, s, c, a->forks, 0);
	a->err = 0;
}

/* A walk by user space did not meet it: its parent waited for it. */
static inline long reap(struct verb_args *a)
{
	struct identity id = a->root;
	struct entry *e = dead_at(&id);

	if (!e)
		return -ESRCH;
	reaped(&id, e);
	return 0;
}

/* For an entry that is in no snapshot: if this walk does not meet it either, it is gone. */
static inline void bury_walked(struct verb_args *a, struct task_struct *t)
{
	if ((u32)t->tgid == a->root.tgid &&
	    t->group_leader->start_boottime == a->root.start) {
		a->visited++;
		a->live += t->signal->live.counter;
	}
}

static inline void bury_unmet(struct verb_args *a)
{
	if (!a->live)
		a->removed = forget(a->root.tgid, a->root.start, a->visited);
}

/* The first task of the walk begins it. */
static inline void dissolve_walked(struct verb_args *a, struct task_struct *t)
{
	struct ctl *c = ctl_of(a->session);

	if (a->err == -ESRCH)
		a->err = c ? begin_dissolve(a->session, c) : -ENOENT;
	if (!a->err && t->pid == t->tgid)
		tally(a, let_member_go(t->tgid, t->start_boottime, a->session,
				       home_of(a->session)));
}

/*
 * Hand one dead process of a session that is about to be released to the session around
 * it. A free hook that comes meanwhile does not get the claim; user space checks afterwards
 * whether the process was reaped.
 */
static inline long hand_one(struct verb_args *a)
{
	struct session *s = session_of(a->session);
	struct identity id = a->root;
	struct entry *e;

	if (!s || !claim(&id))
		return -ESRCH;
	e = dead_at(&id);
	if (e && e->session == (a->session | SESSION_DEAD)) {
		e->session = s->parent | SESSION_DEAD;
		__sync_fetch_and_add(&s->held, -1);
	}
	let_go(&id);
	return 0;
}

#endif
