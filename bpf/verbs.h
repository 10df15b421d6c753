/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The session verbs, run by BPF_PROG_RUN. Arguments and results stand in the
 * `verb` map. They return 0 or -errno.
 */
#ifndef LINEAGE_VERBS_H
#define LINEAGE_VERBS_H

#include "sentence.h"

static __always_inline struct verb_args *args(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&verb, &zero);
}

/* The named process if it lives: a thread group leader, not a kernel thread. */
static __always_inline struct task_struct *find(const struct identity *id)
{
	struct task_struct *t = bpf_task_from_pid(id->tgid);

	if (!t)
		return NULL;
	if (t->pid != t->tgid || (id->start && t->start_boottime != id->start) ||
	    !t->signal->live.counter || t->flags & PF_KTHREAD) {
		bpf_task_release(t);
		return NULL;
	}
	return t;
}

/*
 * Enter a living process outside a fork, or add flags to its entry. It may be
 * exiting right now: whoever sees the other's step counts the death.
 */
static __always_inline struct entry *enter(struct task_struct *t, const struct entry *n)
{
	u32 tgid = t->tgid;
	struct entry *e = entry_of(tgid, n->start);

	if (!e) {
		if (bpf_map_update_elem(&processes, &tgid, n, BPF_NOEXIST))
			return NULL;
		e = bpf_map_lookup_elem(&processes, &tgid);
		if (!e)
			return NULL;
	} else {
		__sync_fetch_and_or(&e->flags, n->flags);
	}
	if (!t->signal->live.counter) {
		bury(tgid, e, n->start, false);
		return NULL;
	}
	return e;
}

static __always_inline long enter_owner(const struct identity *id)
{
	struct task_struct *t = find(id);
	struct entry n = { .flags = FLAG_OWNER };
	long err = 0;

	if (!t)
		return -ESRCH;
	n.start = t->start_boottime;
	n.since = bpf_ktime_get_boot_ns();
	if (!enter(t, &n))
		err = -ESRCH;
	bpf_task_release(t);
	return err;
}

static __always_inline u32 depth_of(u64 id)
{
	u32 depth = 0;

	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);

		if (!s)
			break;
		depth++;
		id = s->parent;
	}
	return depth;
}

/* Make the process the root of the session, from its present one if it has one. */
static __always_inline long enter_root(struct task_struct *t, struct session *s, u64 id)
{
	u32 tgid = t->tgid;
	struct entry *e = entry_of(tgid, t->start_boottime);
	struct entry n = {
		.start = t->start_boottime,
		.session = id,
		.since = bpf_ktime_get_boot_ns(),
		.flags = FLAG_ROOT,
		.evidence = EVIDENCE_ROOT,
	};
	u64 parent = s->parent;

	identify(&n.creator, t->real_parent->group_leader);
	if (e) {
		if (e->flags & FLAG_PROTECTED)
			return -EPERM;
		/* In place, and only if nobody moved or buried it meanwhile. */
		if (__sync_val_compare_and_swap(&e->session, parent, id) != parent)
			return -ESRCH;
		__sync_fetch_and_or(&e->flags, FLAG_ROOT);
		if (parent) {
			n.creator = e->creator;
			session_count(s, JOINED);
		} else {
			chain_count(id, JOINED);
		}
	} else {
		/* Counted first: its death may come right after the insert. */
		chain_count(id, JOINED);
		if (!enter(t, &n)) {
			chain_count(id, DIED_FORGOTTEN);
			return -ESRCH;
		}
	}
	emit_birth(t, tgid, &n, cgroup_of(t));
	return 0;
}

static __always_inline long create_in(struct verb_args *a, struct task_struct *root, u32 slot)
{
	u64 id = slot | (a->random & 0x3fffffff) << 32;
	struct session *s = bpf_map_lookup_elem(&sessions, &slot);
	struct ctl *c = bpf_map_lookup_elem(&session_ctl, &slot);
	struct entry *e = entry_of(root->tgid, root->start_boottime);
	u64 parent = e ? e->session : 0;
	long err;

	if (!s || !c)
		return -EINVAL;
	if (depth_of(parent) >= MAX_DEPTH) {
		count(COUNT_DEPTH);
		return -ELOOP;
	}
	s->parent = parent;
	identify(&s->root, root);
	s->owner = a->owner;
	s->created = bpf_ktime_get_boot_ns();
	s->live = s->dying = s->unreaped = 0;
	s->forks = s->peak = 0;
	c->flags = a->flags;
	c->grace = a->grace;
	c->deadline = c->ended_at = 0;
	c->expires = a->max_lifetime ? s->created + a->max_lifetime : 0;
	c->max_processes = a->max_processes;
	c->max_rss = a->max_rss;
	c->idle = a->idle;
	c->uid = a->uid;
	__builtin_memcpy(c->name, a->name, sizeof(c->name));
	*(volatile u32 *)&c->status = STATUS(STATE_ACTIVE, CAUSE_NONE);
	c->id = id;
	s->id = id;
	err = a->owner.tgid ? enter_owner(&a->owner) : 0;
	if (!err)
		err = enter_root(root, s, id);
	if (err) {
		s->id = 0;
		c->id = 0;
		return err;
	}
	if (c->expires)
		arm_at(&control.due_boot, c->expires);
	a->session = id;
	emit_session(id, STATE_ACTIVE, CAUSE_NONE);
	return 0;
}

static __always_inline long create(struct verb_args *a)
{
	struct task_struct *root = find(&a->root);
	long err;
	u32 slot;

	if (!root)
		return -ESRCH;
	if (bpf_map_pop_elem(&free_slots, &slot)) {
		bpf_task_release(root);
		return -ENOSPC;
	}
	err = create_in(a, root, slot);
	bpf_task_release(root);
	if (err)
		bpf_map_push_elem(&free_slots, &slot, BPF_ANY);
	return err;
}

static __always_inline void sentence(struct verb_args *a)
{
	struct pass p = {};

	/* Everything due is carried out now; what comes up meanwhile is due again. */
	__sync_lock_test_and_set(&control.due, 0);
	__sync_lock_test_and_set(&control.due_boot, 0);
	pass_all(&p);
	a->visited = p.visited;
	a->sent = p.sent;
	a->failed = p.failed;
	a->unsent = p.unsent;
	a->more = *(volatile u64 *)&control.due != 0;
}

static __always_inline long end(struct verb_args *a)
{
	struct ctl *c = ctl_of(a->session);

	if (!c)
		return -ENOENT;
	if (!begin_end(c, a->cause, a->grace)) {
		if (a->grace)
			shorten(c, bpf_ktime_get_ns() + a->grace);
		else
			condemn(c);
	}
	sentence(a);
	return 0;
}

/* Global, so that the verifier looks at it once and not in each turn of a walk. */
__noinline int is_member(u32 tgid, u64 start, u64 id)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == start && e->session && chain_has(e->session, id);
}

static __always_inline u64 members_alive(u64 id)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	u64 n = 0;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		n += is_member(t->tgid, t->start_boottime, id);
	bpf_iter_task_destroy(&it);
	return n;
}

/*
 * Bring the counts up to date and close the session if they prove it empty:
 * nobody live by the counters and by a walk, nobody dying. A walk that met
 * nobody while nobody was born corrects a live count that drifted.
 */
static __always_inline long settle(struct verb_args *a)
{
	u64 id = a->session;
	struct session *s = session_of(id);
	struct ctl *c = ctl_of(id);
	u32 status;
	u64 forks;

	if (!s || !c)
		return -ENOENT;
	bpf_for_each_map_elem(&dead, settle_dead, NULL, 0);
	forks = *(volatile u64 *)&s->forks;
	a->live = members_alive(id);
	if (a->live || *(volatile u64 *)&s->forks != forks)
		return 0;
	if (s->live) {
		s64 live = s->live;

		if (__sync_val_compare_and_swap(&s->live, live, 0) == live)
			count(COUNT_DRIFT);
	}
	/* Active and without a member: its root was the last. */
	begin_end(c, CAUSE_ROOT_EXIT, 0);
	if (*(volatile s64 *)&s->dying > 0)
		return 0;
	status = *(volatile u32 *)&c->status;
	if (STATE(status) >= STATE_EMPTY)
		return 0;
	if (__sync_val_compare_and_swap(&c->status, status, STATUS(STATE_EMPTY, CAUSE(status))) ==
	    status)
		emit_session(id, STATE_EMPTY, CAUSE(status));
	return 0;
}

static __always_inline long release(struct verb_args *a)
{
	u64 id = a->session;
	struct session *s = session_of(id);
	struct ctl *c = ctl_of(id);
	u32 slot = (u32)id;

	if (!s || !c)
		return -ENOENT;
	if (STATE(c->status) != STATE_EMPTY)
		return -EBUSY;
	s->id = 0;
	c->id = 0;
	c->status = 0;
	return bpf_map_push_elem(&free_slots, &slot, BPF_ANY);
}

/* Who has this PID now: alive or a zombie, in no session or in one. */
static __always_inline long whois(struct verb_args *a)
{
	struct task_struct *t = bpf_task_from_pid(a->root.tgid);
	long err = 0;

	if (!t)
		return -ESRCH;
	if (t->pid == t->tgid)
		a->root.start = t->start_boottime;
	else
		err = -ESRCH; /* a thread */
	bpf_task_release(t);
	return err;
}

static __always_inline long protect(struct verb_args *a)
{
	struct task_struct *t = find(&a->root);
	struct entry n = { .flags = FLAG_PROTECTED };
	struct entry *e;
	long err = 0;

	if (!t)
		return -ESRCH;
	n.start = t->start_boottime;
	n.since = bpf_ktime_get_boot_ns();
	e = entry_of(t->tgid, n.start);
	if (e && e->session)
		err = -EPERM; /* a member is no daemon: its session could not be ended */
	else if (!enter(t, &n))
		err = -ESRCH;
	bpf_task_release(t);
	return err;
}

/* Note what user space is about to send, as a pass does. */
static __always_inline long mark(struct verb_args *a)
{
	struct entry *e = entry_of(a->root.tgid, a->root.start);

	if (!e)
		return -ESRCH;
	__sync_fetch_and_or(&e->flags, a->flags);
	return 0;
}

/*
 * Enter who has no entry although its parent was a member before it was born:
 * a birth that was missed. A process that was born before its parent was
 * entered is not one, and neither is one that has an entry without a session.
 */
static __always_inline bool reconcile_birth(struct task_struct *t)
{
	struct task_struct *parent = t->real_parent->group_leader;
	u32 tgid = t->tgid, parent_tgid = parent->tgid;
	struct entry *e, *p;
	struct entry n = {
		.start = t->start_boottime,
		.evidence = EVIDENCE_RECONCILED,
	};

	if (!t->signal->live.counter || entry_of(tgid, n.start))
		return false;
	p = entry_of(parent_tgid, parent->start_boottime);
	if (!p || !p->session || n.start <= p->since)
		return false;
	n.session = p->session;
	n.since = n.start; /* so that its own children are found in the same walk */
	n.creator.start = p->start;
	n.creator.tgid = parent_tgid;
	if (bpf_map_update_elem(&processes, &tgid, &n, BPF_NOEXIST))
		return false;
	chain_count(n.session, BORN);
	count(COUNT_RECONCILED);
	e = bpf_map_lookup_elem(&processes, &tgid);
	if (e && !t->signal->live.counter) {
		bury(tgid, e, n.start, false);
		return false;
	}
	emit_birth(t, tgid, &n, cgroup_of(t));
	if (condemned(n.session))
		arm(1);
	return true;
}

static long reconcile_death(struct bpf_map *map, u32 *tgid, struct entry *e, u32 *removed)
{
	u64 start = e->start;
	struct task_struct *t;
	bool gone;

	if (!start)
		return 0;
	t = bpf_task_from_pid(*tgid);
	gone = !t || t->start_boottime != start || !t->signal->live.counter;
	if (t)
		bpf_task_release(t);
	if (gone && bury(*tgid, e, start, false))
		(*removed)++;
	return 0;
}

/*
 * Enter everybody alive whom the elder has. Who died before its insert was
 * not counted by our exit hook: it is in the elder's `dead`.
 */
static __always_inline void carry_all(struct verb_args *a)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	u32 added = 0;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it))) {
		u32 tgid = t->tgid;
		u64 start = t->start_boottime;
		struct entry *e;

		if (!t->signal->live.counter || entry_of(tgid, start))
			continue;
		e = carry(tgid, start);
		if (!e)
			continue;
		added++;
		if (!t->signal->live.counter)
			bury(tgid, e, start, false);
	}
	bpf_iter_task_destroy(&it);
	a->added = added;
}

/* Remember a dead process of the elder. That it was reaped since shows in settle. */
static __always_inline long carry_dead(struct verb_args *a)
{
	struct dead_entry d = { .mark = a->root.start << 1 | 1, .session = a->session };
	struct dead_entry *in;
	bool dying = a->flags;

	if (bpf_map_update_elem(&dead, &a->root, &d, BPF_NOEXIST))
		return -EEXIST;
	chain_count(d.session, FOUND_DEAD);
	in = bpf_map_lookup_elem(&dead, &a->root);
	if (in && !dying)
		torn_down(in, a->root.start);
	return 0;
}

static __always_inline void reconcile(struct verb_args *a)
{
	u32 added = 0, removed = 0;
	struct bpf_iter_task it;
	struct task_struct *t;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		added += reconcile_birth(t);
	bpf_iter_task_destroy(&it);
	bpf_for_each_map_elem(&processes, reconcile_death, &removed, 0);
	a->added = added;
	a->removed = removed;
}

#endif
