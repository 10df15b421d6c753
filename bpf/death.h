/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Death: a process whose last thread is in do_exit leaves `processes`, stays in `dead`
 * until its PID is free, and is counted once, by the first program that sees it.
 */
#ifndef LINEAGE_DEATH_H
#define LINEAGE_DEATH_H

#include "killer.h"
#include "reaped.h"
#include <bpf/bpf_core_read.h>

enum burial {
	STALE, /* not kept in `dead` */
	ZOMBIE,
	ZOMBIE_MAKE_ROOM, /* the caller can afford a walk over `dead` */
};

/*
 * Does the death of a root change what a pass would find? Not if the sessions of which it
 * was the root end already. If they end for this death, a pass saw it in its middle.
 */
__noinline bool root_counts(u64 id, u32 tgid, u64 start)
{
	bool found = false;

	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);
		struct ctl *c = ctl_of(id);

		if (!s || !c)
			break;
		if (s->root.tgid == tgid && s->root.start == start) {
			u32 status = READ_ONCE(c->status);

			if (STATE(status) == STATE_ACTIVE || CAUSE(status) == CAUSE_ROOT_EXIT)
				return true;
			found = true;
		}
		id = s->parent;
	}
	return !found; /* it was moved out of its session */
}

/* Count the death of the entry and remove it. False: another caller did. */
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
		/* No more are dead than PIDs exist, but each stays a grace period longer. */
		if (keep && !remember(&id, session)) {
			if (how == ZOMBIE_MAKE_ROOM)
				make_room();
			/* Another CPU may have made room just now. */
			keep = how == ZOMBIE_MAKE_ROOM && remember(&id, session);
			if (!keep)
				count(COUNT_DEAD_FAILED);
		}
		if (keep)
			chain_count(session, DIED);
		else
			chain_count(session, LEFT);
	}
	if (erase(tgid)) {
		count(COUNT_DELETE_FAILED);
		e->session = 0;
		WRITE_ONCE(e->start, START_COUNTED);
	}
	let_go(&id);
	if (flags & FLAG_SIGNALLED)
		forget_signal(tgid, start);
	/*
	 * Sessions may have to end now. The pass finds them: their roots or owners are
	 * no longer entered.
	 */
	if (flags & FLAG_OWNER || (flags & FLAG_ROOT && root_counts(session, tgid, start)))
		WRITE_ONCE(control.due, 1);
	return true;
}

/*
 * Bury an entry that is stale, or whose process died before it was entered. It is not
 * kept in `dead`. Returns 1 if it was there. Global, as it is rare: the verifier checks
 * it once, and not at each look-up of an entry.
 */
__noinline int forget(u32 tgid, u64 start)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == start && start && bury(tgid, e, start, STALE);
}

/*
 * The entry of a process. One of an earlier process with this PID is removed. A verb may
 * hold a task that has died since: then the entry may be a later process's.
 */
static __always_inline struct entry *entry_of(u32 tgid, u64 start)
{
	struct entry *e = entry_at(tgid);

	if (!e || e->start == start)
		return e;
	/* 0: its death is being counted at this moment. */
	if (e->start && e->start < start) {
		count(COUNT_STALE);
		forget(tgid, e->start);
	}
	return NULL;
}

/* The same, but nothing is removed. */
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
 * Is it being killed, or in exit_group()? This is the kernel's flag, not ours. Since
 * 5.17 a core dump has the same flag, and may take minutes: SIGKILL cuts it short.
 */
static __always_inline bool is_killed(struct signal_struct *s)
{
	if (!(s->flags & SIGNAL_GROUP_EXIT))
		return false;
	return !bpf_core_field_exists(s->core_state) || !s->core_state;
}

static __always_inline u32 exit_status(struct task_struct *t)
{
	return t->signal->flags & SIGNAL_GROUP_EXIT ? t->signal->group_exit_code :
						      t->group_leader->exit_code;
}

/*
 * A client was ended by a signal, perhaps after it caught that: the command that it asked
 * for ends. If the command has exited, the client's exit code may be the command's.
 */
__noinline int client_left(u32 tgid, u64 start, u32 status)
{
	struct identity client = { .start = start, .tgid = tgid };
	u64 *command = bpf_map_lookup_elem(&clients, &client);
	struct session *s = command ? session_of(*command) : NULL;

	if (!s || (!(status & 0x7f) && status >> 8 < CODE_INTERRUPTED) || !alive(&s->root))
		return 0;
	fetch_add(&s->left, 1); /* a full barrier: a pass that takes what is due later sees it */
	WRITE_ONCE(control.due, 1);
	return 0;
}

static __always_inline void tell_exit(struct event_exit *e, struct task_struct *t,
				      const struct entry *n, u32 tgid)
{
	struct task_struct *leader = t->group_leader;

	header(&e->h, EVENT_EXIT, tgid, n->start, n->session, n->flags);
	e->status = exit_status(t);
	/* Released threads, the leader, and this thread if it is not the leader. */
	e->cpu_time = t->signal->sum_sched_runtime + leader->se.sum_exec_runtime;
	if (t->pid != t->tgid)
		e->cpu_time += t->se.sum_exec_runtime;
	e->max_rss = t->signal->maxrss;
	e->killed = n->flags & FLAG_SIGNALLED ? 1 : 0;
}

/* Count and report the death of an entered process; t is one of its tasks. */
static __always_inline void die(struct task_struct *t, u32 tgid, struct entry *e, enum burial how)
{
	struct event_exit *x;
	struct entry n = *e;

	if (!n.session) {
		bury(tgid, e, n.start, how);
		return;
	}
	if (n.flags & FLAG_CLIENT)
		client_left(tgid, n.start, exit_status(t));
	/*
	 * The event's place in the ring is reserved before the count and committed
	 * after it: a reader finds it counted, and "empty" follows the last exit.
	 */
	if (n.flags & FLAG_SIGNALLED) {
		struct event_killed *k = reserve(struct event_killed);

		if (!k)
			goto unreported;
		tell_killer(&k->killer, t, tgid, n.start);
		x = &k->x;
	} else {
		x = reserve(struct event_exit);
		if (!x)
			goto unreported;
	}
	tell_exit(x, t, &n, tgid);
	if (bury(tgid, e, n.start, how))
		bpf_ringbuf_submit(x, wakeup(n.flags & FLAG_ROOT));
	else
		bpf_ringbuf_discard(x, BPF_RB_NO_WAKEUP);
	return;
unreported:
	lost();
	bury(tgid, e, n.start, how);
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
