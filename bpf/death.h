/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Death: a process whose last thread is in do_exit leaves `processes`, stays
 * in `dead` until its PID is free, and is counted once, whoever comes first.
 */
#ifndef LINEAGE_DEATH_H
#define LINEAGE_DEATH_H

#include "arbiter.h"
#include "session.h"
#ifndef BASELINE
#include "kfuncs.h"
#endif

/*
 * Count the death of the entry and remove it. keep: it is a real exit that
 * leaves a zombie, not a stale entry. False: somebody else did.
 */
static __always_inline bool bury(u32 tgid, struct entry *e, u64 start, bool keep)
{
	struct identity id = { .start = start, .tgid = tgid };
	u64 session;
	u32 flags;

	if (!seize(&id, e, &session))
		return false;
	flags = e->flags;
	if (session) {
		if (keep && !remember(&id, session)) {
			count(COUNT_DEAD_FAILED);
			keep = false;
		}
		if (keep)
			chain_count(session, DIED);
		else
			chain_count(session, DIED_FORGOTTEN);
	}
	if (bpf_map_delete_elem(&processes, &tgid))
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

	return e && e->start == start && start && bury(tgid, e, start, false);
}

/* The entry of a process; one of a former owner of its PID goes. */
static __always_inline struct entry *entry_of(u32 tgid, u64 start)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	if (!e || e->start == start)
		return e;
	/* 0: its death is being counted at this moment. */
	if (e->start) {
		count(COUNT_STALE);
		forget(tgid, e->start);
	}
	return NULL;
}

static __always_inline bool alive(const struct identity *id)
{
	u32 tgid = id->tgid;
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == id->start;
}

/* Its memory, files and ports are gone: end `dying`, once. */
static __always_inline void torn_down(const struct identity *id, struct dead_entry *d)
{
	u64 session = d->session;

	if (end_dying(id, d))
		chain_count(session, TORN_DOWN);
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
static __always_inline void die(struct task_struct *t, u32 tgid, struct entry *e)
{
	struct event_exit *x;
	struct entry n = *e;

	if (!n.session) {
		bury(tgid, e, n.start, true);
		return;
	}
	/*
	 * Its place in the ring is taken before the count and shown after it: who
	 * reads of the exit finds it counted, and "empty" follows the last exit.
	 */
	x = reserve(struct event_exit);
	if (!x) {
		lost();
		bury(tgid, e, n.start, true);
		return;
	}
	tell_exit(x, t, &n, tgid);
	if (bury(tgid, e, n.start, true))
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
	e = bpf_map_lookup_elem(&processes, &tgid);
	if (!e)
		return;
	start = e->start;
	if (start == t->group_leader->start_boottime) {
		die(t, tgid, e);
	} else if (start) {
		count(COUNT_STALE);
		forget(tgid, start);
	}
}

/* It was waited for: its PID may be another's by now. Once, whoever finds out. */
static __always_inline void reaped(struct identity *id, struct dead_entry *d)
{
	struct event_reaped *e;
	u64 session = d->session;

	torn_down(id, d);
	if (bpf_map_delete_elem(&dead, id))
		return;
	chain_count(session, REAPED);
	e = reserve(struct event_reaped);
	if (!e) {
		lost();
		return;
	}
	header(&e->h, EVENT_REAPED, id->tgid, id->start, session, 0);
	bpf_ringbuf_submit(e, wakeup(false));
}

/* The last reference to a task is gone, an RCU grace period after it was reaped. */
static __always_inline void on_free(struct task_struct *t)
{
	struct identity id = { .start = t->start_boottime, .tgid = t->tgid };
	struct dead_entry *d;

	if (t->pid != t->tgid)
		return;
	d = bpf_map_lookup_elem(&dead, &id);
	if (d)
		reaped(&id, d);
}

/* A leader that is a zombie has died for good when it is the last of its threads. */
static __always_inline bool is_gone(struct task_struct *leader)
{
	return leader->exit_state && leader->signal->nr_threads <= 1;
}

#ifndef BASELINE
/* Bring one dead process up to date: torn down, reaped. */
static long settle_dead(struct bpf_map *map, struct identity *key, struct dead_entry *d, void *ctx)
{
	struct identity id = *key; /* the element goes with the delete */
	struct task_struct *t = bpf_task_from_pid(id.tgid);
	bool hashed = t && t->start_boottime == id.start;
	bool gone = hashed && is_gone(t);

	if (t)
		bpf_task_release(t);
	if (!hashed)
		reaped(&id, d);
	else if (gone)
		torn_down(&id, d);
	return 0;
}
#endif

#endif
