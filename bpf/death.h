/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Death: a process whose last thread is in do_exit leaves `processes`, stays
 * in `dead` until its PID is free, and is counted once, whoever comes first.
 */
#ifndef LINEAGE_DEATH_H
#define LINEAGE_DEATH_H

#include "reaped.h"
#include <bpf/bpf_core_read.h>

enum burial {
	STALE, /* nobody will wait for it */
	ZOMBIE,
	ZOMBIE_MAKE_ROOM, /* where a walk over the dead is not too long */
};

/*
 * Count the death of the entry and remove it. False: somebody else did.
 */
static __always_inline bool bury(u32 tgid, struct entry *e, u64 start, enum burial how)
{
	struct identity id = { .start = start, .tgid = tgid };
	bool keep = how != STALE;
	u64 session;
	u32 flags;

	if (!seize(&id, e, &session))
		return false;
	flags = e->flags;
	if (session) {
		/* The dead are as many as PIDs at most, but they stay a grace period longer. */
		if (keep && !remember(&id, session) &&
		    !(how == ZOMBIE_MAKE_ROOM && recount() && remember(&id, session))) {
			count(COUNT_DEAD_FAILED);
			keep = false;
		}
		if (keep)
			chain_count(session, DIED);
		else
			chain_count(session, LEFT);
	}
	if (erase(tgid))
		count(COUNT_DELETE_FAILED);
	let_go(&id);
	/*
	 * Its sessions may have to end: the pass finds out which, by their
	 * roots and owners that are no longer entered.
	 */
	if (flags & (FLAG_ROOT | FLAG_OWNER))
		*(volatile u64 *)&control.due = 1;
	return true;
}

/*
 * Bury an entry that is stale, or whose process died before it was entered:
 * nobody remembers it. 1 if it was there. Global, as it is rare: the verifier
 * looks at it once, and not wherever an entry is asked for.
 */
__noinline int forget(u32 tgid, u64 start)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == start && start && bury(tgid, e, start, STALE);
}

/* The entry of a process; one of a former owner of its PID goes. */
static __always_inline struct entry *entry_of(u32 tgid, u64 start)
{
	struct entry *e = entry_at(tgid);

	if (!e || e->start == start)
		return e;
	/* 0: its death is being counted at this moment. */
	if (e->start) {
		count(COUNT_STALE);
		forget(tgid, e->start);
	}
	return NULL;
}

/* The same where nobody is to be buried. */
static __always_inline struct entry *entered(u32 tgid, u64 start)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == start ? e : NULL;
}

static __always_inline bool alive(const struct identity *id)
{
	u32 tgid = id->tgid;
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == id->start;
}

/*
 * Is it being killed, or exiting by itself? The kernel's own word, not ours. Since 5.17 a
 * core dump has the same flag, and may take minutes: SIGKILL is what cuts it short.
 */
static __always_inline bool is_killed(struct signal_struct *s)
{
	if (!(s->flags & SIGNAL_GROUP_EXIT))
		return false;
	return !bpf_core_field_exists(s->core_state) || !s->core_state;
}

static __always_inline void tell_exit(struct event_exit *e, struct task_struct *t,
				      const struct entry *n, u32 tgid)
{
	struct task_struct *leader = t->group_leader;

	header(&e->h, EVENT_EXIT, tgid, n->start, n->session, n->flags);
	e->status = t->signal->flags & SIGNAL_GROUP_EXIT ? t->signal->group_exit_code :
							   leader->exit_code;
	/* Released threads, the leader, and this thread if it is another. */
	e->cpu_time = t->signal->sum_sched_runtime + leader->se.sum_exec_runtime;
	if (t->pid != t->tgid)
		e->cpu_time += t->se.sum_exec_runtime;
	e->max_rss = t->signal->maxrss;
	e->pad = 0;
}

/* Count and tell the death of an entered process by one of its tasks. */
static __always_inline void die(struct task_struct *t, u32 tgid, struct entry *e, enum burial how)
{
	struct event_exit *x;
	struct entry n = *e;

	if (!n.session) {
		bury(tgid, e, n.start, how);
		return;
	}
	/*
	 * Its place in the ring is taken before the count and shown after it: who
	 * reads of the exit finds it counted, and "empty" follows the last exit.
	 */
	x = reserve(struct event_exit);
	if (!x) {
		lost();
		bury(tgid, e, n.start, how);
		return;
	}
	tell_exit(x, t, &n, tgid);
	if (bury(tgid, e, n.start, how))
		bpf_ringbuf_submit(x, wakeup(n.flags & FLAG_ROOT));
	else
		bpf_ringbuf_discard(x, BPF_RB_NO_WAKEUP);
}

/*
 * A thread exits. Group death is signal->live == 0, not "the leader exited":
 * a zombie leader may have living threads. Two last threads may both see 0.
 */
static __always_inline void on_exit(struct task_struct *t)
{
	u32 tgid = t->tgid;
	struct entry *e;
	u64 start;

	if (t->signal->live.counter)
		return;
	e = entry_at(tgid);
	if (!e)
		return;
	start = e->start;
	if (start == t->group_leader->start_boottime) {
		die(t, tgid, e, ZOMBIE_MAKE_ROOM);
	} else if (start) {
		count(COUNT_STALE);
		forget(tgid, start);
	}
}

#endif
