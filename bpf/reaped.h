/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What follows a death: its memory, files and ports go, its parent waits for
 * it, and its PID is free.
 */
#ifndef LINEAGE_REAPED_H
#define LINEAGE_REAPED_H

#include "arbiter.h"
#include "session.h"

/* Its memory, files and ports are gone: end `dying`, once. */
static inline void torn_down(const struct identity *id, struct entry *e)
{
	u64 session = e->session & ~SESSION_DEAD;

	if (end_dying(id, e))
		chain_count(session, TORN_DOWN);
}

/*
 * It was waited for: its PID may be reused by now. Counted once, by the first caller; the
 * others get false.
 */
static inline bool reaped(const struct identity *id, struct entry *e)
{
	struct event_reaped *x;
	u64 session;

	torn_down(id, e);
	if (!collect(id, e, &session))
		return false;
	chain_count(session, REAPED);
	drop(id->tgid, e);
	let_go(id);
	x = reserve(struct event_reaped);
	if (!x)
		return true;
	header(&x->h, EVENT_REAPED, id->tgid, id->start, session, 0);
	bpf_ringbuf_submit(x, wakeup(false));
	return true;
}

/* The last reference is gone, a grace period after the reap; baseline: also at the reap. */
static inline void on_free(struct task_struct *t)
{
	struct identity id = { .tgid = t->tgid };
	struct entry *e;

	if (t->pid != t->tgid || !occupied(id.tgid))
		return;
	id.start =
		t->start_boottime; /* read late: its cache line of the task is cold */
	e = dead_at(&id);
	if (e)
		reaped(&id, e);
}

/* A zombie leader's process is dead for good when the leader is its last thread. */
static inline bool is_gone(struct task_struct *leader)
{
	return leader->exit_state && leader->signal->nr_threads <= 1;
}

#define RECOUNT_NS 10000000

#ifndef BASELINE
/*
 * Bring an entry up to date if its process is dead: torn down, reaped. Another CPU may be
 * counting it. The element may be another process's at each read: so it is looked up again.
 */
static long settle_dead(struct bpf_map *map, u32 *tgid, struct entry *e,
			bool *counting)
{
	u64 word = READ_ONCE(e->start);
	struct identity id = { .start = word & (ENTRY_TEARING - 1),
			       .tgid = *tgid };
	struct task_struct *t;
	bool hashed, gone;

	if (!(word & ENTRY_DEAD))
		return 0;
	t = bpf_task_from_pid(id.tgid);
	hashed = t && t->start_boottime == id.start;
	gone = hashed && is_gone(t);
	if (t)
		bpf_task_release(t);
	e = dead_at(&id);
	if (e && gone)
		torn_down(&id, e);
	if (!hashed && !(e && reaped(&id, e)) && counting)
		*counting = true;
	return 0;
}

/*
 * Check all of the dead before a session is ended for its zombies. Zombies hold PIDs,
 * but a reaped process is reported an RCU grace period late. At most every 10 ms, and for
 * a tenth of the time: the living are passed over one by one. False: the count may be
 * too high still.
 */
__noinline bool recount(void)
{
	u64 now = bpf_ktime_get_ns(), from = READ_ONCE(control.recount);
	bool counting = false;

	if (now < from || !swap(&control.recount, from, now + RECOUNT_NS))
		return false;
	if (bpf_task_from_pid)
		bpf_for_each_map_elem(&processes, settle_dead, &counting, 0);
	WRITE_ONCE(control.recount,
		   now + RECOUNT_NS + 10 * (bpf_ktime_get_ns() - now));
	return !counting;
}
#else
/* If fentry/release_task reports each wait at once, the counts are exact already. */
static inline bool recount(void)
{
	return config.exact_reaps;
}
#endif

#endif
