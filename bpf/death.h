/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Death: the entry of a process whose last thread is in do_exit is marked, and stays until
 * its PID is free. The death is counted once, by the first program that sees it.
 */
#ifndef LINEAGE_DEATH_H
#define LINEAGE_DEATH_H

#include "killer.h"
#include "reaped.h"
#include <bpf/bpf_core_read.h>

/*
 * Does the death of a root change what a pass would find? Not if the sessions of which it
 * was the root end already. If they end for this death, a pass saw it in its middle.
 */
__noinline bool root_counts(u64 id, u32 tgid, u64 start)
{
	bool found = false;

	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c) {
		if (s->root.tgid == tgid && s->root.start == start) {
			u32 status = READ_ONCE(c->status);

			if (STATE(status) == STATE_ACTIVE ||
			    CAUSE(status) == CAUSE_ROOT_EXIT)
				return true;
			found = true;
		}
	}
	return !found; /* it was moved out of its session */
}

/* Count the death of the entry, and mark or remove it. False: another caller did. */
static inline bool bury(u32 tgid, struct entry *e, u64 start, bool keep)
{
	struct identity id = { .start = start, .tgid = tgid };
	u64 session;
	u32 flags;

	if (!seize(&id, e, &session))
		return false;
	flags = e->flags;
	if (session && keep) {
		chain_count(session, DIED);
		/* Baseline: a member until it is counted. */
		e->session = session | SESSION_DEAD;
		WRITE_ONCE(e->start, ENTRY_DEAD | ENTRY_TEARING | start);
	} else {
		if (session)
			chain_count(session, LEFT);
		drop(tgid, e);
	}
	let_go(&id);
	if (flags & FLAG_SIGNALLED)
		forget_signal(tgid, start);
	/*
	 * Sessions may have to end now. The pass finds them: their roots or owners are
	 * no longer entered.
	 */
	if (flags & FLAG_OWNER ||
	    (flags & FLAG_ROOT && root_counts(session, tgid, start)))
		WRITE_ONCE(control.due, 1);
	return true;
}

/*
 * Bury an entry that is stale, or whose process died before it was entered: it is
 * removed, or kept while that exits. Returns 1 if it was there. Global, as it is rare:
 * the verifier checks it once, and not at each look-up of an entry.
 */
__noinline int forget(u32 tgid, u64 start, int keep)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == start && start && bury(tgid, e, start, keep);
}

/* How often a program tries to insert an entry, and looks each time for an obstacle to go. */
#define TRIES 4
#define LOOKS 32

/*
 * Remove the entry of an earlier process with this PID. If that one is dead, it was waited
 * for: it is counted as reaped here, and a later free hook finds another start. Else its
 * death was missed. A verb may hold a task that has died since: then the entry may be its
 * own, or a later process's, and 0 is returned. A start of 0 or ENTRY_DEAD: wait for it.
 */
__noinline int make_way(u32 tgid, u64 start)
{
	struct identity id = { .tgid = tgid };
	struct entry *e;
	u64 word;

	for (int i = 0; i < LOOKS && !id.start; i++) {
		e = bpf_map_lookup_elem(&processes, &tgid);
		if (!e)
			return 1;
		word = READ_ONCE(e->start);
		id.start = word & (ENTRY_TEARING - 1);
	}
	if (!id.start || id.start >= start)
		return !id.start;
	/* Again: the element may have been another process's. */
	e = bpf_map_lookup_elem(&processes, &tgid);
	if (!e || e->start != word)
		return 1;
	if (word & ENTRY_DEAD)
		reaped(&id, e);
	else if (bury(tgid, e, word, false))
		count(COUNT_STALE);
	return 1;
}

/* Insert an entry, in the place of an earlier process with this PID. -errno. */
static inline long place(u32 tgid, const struct entry *n)
{
	long err = insert(tgid, n);

	for (int i = 0; i < TRIES && err == -EEXIST && make_way(tgid, n->start);
	     i++)
		err = insert(tgid, n);
	return err;
}

/*
 * Is it being killed, or in exit_group()? This is the kernel's flag, not ours. Since
 * 5.17 a core dump has the same flag, and may take minutes: SIGKILL cuts it short.
 */
static inline bool is_killed(struct signal_struct *s)
{
	if (!(s->flags & SIGNAL_GROUP_EXIT))
		return false;
	return !bpf_core_field_exists(s->core_state) || !s->core_state;
}

static inline u32 exit_status(struct task_struct *t)
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

	if (!s || (!(status & 0x7f) && status >> 8 < CODE_INTERRUPTED) ||
	    !alive(&s->root))
		return 0;
	/* A full barrier: a pass that takes what is due later sees it. */
	fetch_add(&s->left, 1);
	WRITE_ONCE(control.due, 1);
	return 0;
}

static inline void tell_exit(struct event_exit *e, struct task_struct *t,
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

/*
 * Count and report the death of an entered process; t is one of its tasks. The event's
 * place in the ring is reserved before the count and committed after it: a reader finds
 * it counted, and "empty" follows the last exit.
 */
static inline void die(struct task_struct *t, u32 tgid, struct entry *e)
{
	struct event_exit *x = NULL;
	struct event_killed *k;
	struct entry n = *e;

	if (n.session && n.flags & FLAG_CLIENT)
		client_left(tgid, n.start, exit_status(t));
	if (n.session && n.flags & FLAG_SIGNALLED) {
		k = reserve(struct event_killed);
		if (k)
			tell_killer(&k->killer, t, tgid, n.start);
		x = k ? &k->x : NULL;
	} else if (n.session) {
		x = reserve(struct event_exit);
	}
	if (x)
		tell_exit(x, t, &n, tgid);
	if (bury(tgid, e, n.start, true) && x)
		bpf_ringbuf_submit(x, wakeup(n.flags & FLAG_ROOT));
	else if (x)
		bpf_ringbuf_discard(x, BPF_RB_NO_WAKEUP);
}

/*
 * A thread exits. Group death is signal->live == 0, not "the leader exited":
 * a zombie leader may have living threads. Two last threads may both see 0.
 */
static inline void on_exit(struct task_struct *t)
{
	u32 tgid = t->tgid;
	struct entry *e;
	u64 start;

	if (t->signal->live.counter)
		return;
	e = entry_at(tgid);
	if (config.deaths && t->signal->oom_mm)
		note_oom(t);
	if (!e)
		return;
	start = t->group_leader->start_boottime;
	if (e->start == start)
		die(t, tgid, e);
	else
		make_way(tgid, start);
}

#endif
