/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What only fentry programs can do: report the exact reparent, and be second writers of
 * birth and death. They run under tasklist_lock with interrupts off, where no recursion
 * guard can skip them. They change states; they never signal.
 */
#ifndef LINEAGE_REPARENT_H
#define LINEAGE_REPARENT_H

#include "birth.h"
#include "current.h"

/* The entry of current, which is creating a process. */
static inline struct entry *attaching_entry(u32 tgid)
{
#ifndef BASELINE
	return creator_entry(bpf_get_current_task_btf());
#else
	/* No typed task here: an outsider is adopted in sched_process_fork. */
	return entered(tgid, current_start());
#endif
}

/* attach_pid(child, PIDTYPE_TGID) is a new process; current is its creator. */
static inline void on_attach(struct task_struct *child)
{
	u32 tgid = current_tgid();
	struct entry *c, *e;
	u32 demand;
	u64 session;

	c = attaching_entry(tgid);
	if (!c || !c->session)
		return;
	/* The child has no cgroup yet: on_fork() sees CLONE_INTO_CGROUP. */
	if (enter_child(c, tgid, child, current_cgroup(), &session))
		return;
	demand = demanded(session);
	e = demand & CONDEMNED ? entered(child->tgid, child->start_boottime) :
				 NULL;
	if (e)
		set_flags(e, FLAG_UNKILLED);
	if (demand & (CONDEMNED | PAUSED))
		arm(1);
}

/* The whole group is dead and torn down, and its parent is about to be notified. */
static inline void on_notify(struct task_struct *t)
{
	u32 tgid = t->tgid;
	struct identity id = { .start = t->start_boottime, .tgid = tgid };
	struct entry *e;

	/* Also called for ptraced threads, and again when a zombie is reparented. */
	if (t->pid != t->tgid || t->signal->live.counter)
		return;
	e = entry_at(tgid);
	if (!e)
		return;
	if (e->start == id.start) {
		count(COUNT_MISSED_DEATH);
		die(t, tgid, e);
	}
	e = dead_at(&id);
	if (e)
		torn_down(&id, e);
}

/*
 * kill_orphaned_pgrp(t, father): with a father it is called once for each child that
 * just got another parent. father is the old one, real_parent the new one.
 */
static inline void on_reparent(struct task_struct *t, struct task_struct *father)
{
	u32 tgid = t->tgid;
	u64 start = t->group_leader->start_boottime;
	struct entry *e = entered(tgid, start);
	struct event_reparent *r;

	if (!father || !e || !e->session)
		return;
	r = reserve(struct event_reparent);
	if (!r)
		return;
	header(&r->h, EVENT_REPARENT, tgid, start, e->session, e->flags);
	identify(&r->from, father->group_leader);
	identify(&r->to, t->real_parent->group_leader);
	bpf_ringbuf_submit(r, wakeup(false));
}

#endif
