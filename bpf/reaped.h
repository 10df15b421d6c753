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
static __always_inline void torn_down(const struct identity *id, struct dead_entry *d)
{
	u64 session = d->session;

	if (end_dying(id, d))
		chain_count(session, TORN_DOWN);
}

/*
 * It was waited for: its PID may be reused by now. Counted once, by the first caller; the
 * others get false.
 */
static __always_inline bool reaped(struct identity *id, struct dead_entry *d)
{
	struct event_reaped *e;
	u64 session;

	torn_down(id, d);
	if (!collect(id, d, &session))
		return false;
	chain_count(session, REAPED);
	collected(id, d);
	e = reserve(struct event_reaped);
	if (!e) {
		lost();
		return true;
	}
	header(&e->h, EVENT_REAPED, id->tgid, id->start, session, 0);
	bpf_ringbuf_submit(e, wakeup(false));
	return true;
}

/* The last reference is gone, a grace period after the reap; baseline: also at the reap. */
static __always_inline void on_free(struct task_struct *t)
{
	struct identity id = { .tgid = t->tgid };
	struct dead_entry *d;

	if (t->pid != t->tgid || !occupied(id.tgid))
		return;
	id.start = t->start_boottime; /* read late: its cache line of the task is cold */
	d = bpf_map_lookup_elem(&dead, &id);
	if (d)
		reaped(&id, d);
}

/* A zombie leader's process is dead for good when the leader is its last thread. */
static __always_inline bool is_gone(struct task_struct *leader)
{
	return leader->exit_state && leader->signal->nr_threads <= 1;
}

#define RECOUNT_NS 10000000

#ifndef BASELINE
/* Bring one dead process up to date: torn down, reaped. Another CPU may be counting it. */
static long settle_dead(struct bpf_map *map, struct identity *key, struct dead_entry *d,
			bool *counting)
{
	struct identity id = *key; /* the delete frees the element */
	struct task_struct *t = bpf_task_from_pid(id.tgid);
	bool hashed = t && t->start_boottime == id.start;
	bool gone = hashed && is_gone(t);

	if (t)
		bpf_task_release(t);
	if (hashed && gone)
		torn_down(&id, d);
	if (hashed)
		return 0;
	if (!READ_ONCE(d->mark)) /* it was counted as reaped, and then the delete failed */
		erase_dead(&id);
	else if (!reaped(&id, d) && counting)
		*counting = true;
	return 0;
}

/*
 * Check all of the dead before a session is ended for its zombies. Zombies hold PIDs,
 * but a reaped process is reported an RCU grace period late. At most every 10 ms. False:
 * the count may be too high still.
 */
__noinline bool recount(void)
{
	u64 now = bpf_ktime_get_ns(), last = READ_ONCE(control.recounted);
	bool counting = false;

	if (now - last < RECOUNT_NS || !swap(&control.recounted, last, now))
		return false;
	if (bpf_task_from_pid)
		bpf_for_each_map_elem(&dead, settle_dead, &counting, 0);
	return !counting;
}

/*
 * The same when `dead` is full. A CPU that finds it full while another one checks does
 * not wait: it checks, too, as the other may not have removed any yet. If `dead` is
 * full again within 10 ms it is not checked again: these are zombies.
 */
__noinline int make_room(void)
{
	if (bpf_ktime_get_ns() - READ_ONCE(control.made_room) < RECOUNT_NS)
		return 0;
	if (bpf_task_from_pid)
		bpf_for_each_map_elem(&dead, settle_dead, NULL, 0);
	WRITE_ONCE(control.made_room, bpf_ktime_get_ns());
	return 0;
}
#else
/* If fentry/release_task reports each wait at once, the counts are exact already. */
static __always_inline bool recount(void)
{
	return config.exact_reaps;
}

static __always_inline int make_room(void)
{
	return 0;
}
#endif

#endif
