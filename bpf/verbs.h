/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The session verbs, run by BPF_PROG_RUN. Arguments and results stand in the
 * `verb` map. They return 0 or -errno.
 */
#ifndef LINEAGE_VERBS_H
#define LINEAGE_VERBS_H

#include "open.h"
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
	err = a->owner.tgid ? enter_owner(&a->owner) : 0;
	if (!err)
		err = create_in(a, root, slot);
	bpf_task_release(root);
	if (err)
		bpf_map_push_elem(&free_slots, &slot, BPF_ANY);
	return err;
}

/* Hold an active session to other terms; a->flags, a->rule and a->name too. */
static __always_inline long set_terms(struct verb_args *a)
{
	struct session *s = session_of(a->session);
	struct ctl *c = ctl_of(a->session);

	if (!s || !c)
		return -ENOENT;
	if (STATE(*(volatile u32 *)&c->status) != STATE_ACTIVE)
		return -EBUSY;
	c->grace = a->grace;
	c->expires = a->max_lifetime ? s->created + a->max_lifetime : 0;
	c->max_processes = a->max_processes;
	c->max_rss = a->max_rss;
	c->idle = a->idle;
	c->rule = a->rule;
	c->flags = a->flags | (c->flags & (SESSION_KEPT | SESSION_AGENT));
	__builtin_memcpy(c->name, a->name, sizeof(c->name));
	if (c->expires)
		arm_at(&control.due_boot, c->expires);
	arm(1); /* its root may be gone */
	return 0;
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
	if (c->flags & SESSION_AGENT)
		dismiss(c->uid);
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
		forget(tgid, n.start);
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
	if (gone && forget(*tgid, start))
		(*removed)++;
	return 0;
}

/* Enter a stranger that evidence speaks for; its creator is a->owner, if that is known. */
static __always_inline long enter_stranger(struct verb_args *a)
{
	struct task_struct *t;
	long err = 0;

	if (!session_of(a->session))
		return -ENOENT;
	t = find(&a->root);
	if (!t)
		return -ESRCH;
	if (!adopt(t, a->session, &a->owner, a->evidence))
		err = -EPERM;
	bpf_task_release(t);
	return err;
}

/*
 * Enter every stranger whose parent is in the session. With control.adopting
 * set before the first pass, nobody is missed when one has found nobody: who
 * was born since is entered by the fork hook.
 */
static __always_inline long adopt_all(struct verb_args *a)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	u32 added = 0;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it))) {
		struct task_struct *up = t->real_parent->group_leader;
		u32 above = up->tgid;
		struct entry *e = bpf_map_lookup_elem(&processes, &above);
		struct identity parent = { .start = up->start_boottime, .tgid = above };

		if (e && e->start == parent.start && e->session == a->session &&
		    t->signal->live.counter)
			added += adopt(t, a->session, &parent,
				       EVIDENCE(EVIDENCE_ADOPTED, SOURCE_PARENT));
	}
	bpf_iter_task_destroy(&it);
	a->added = added;
	return 0;
}

/*
 * Move one process of a walk; 1 if it was moved. only: if its creator is in `to`
 * already. Global as is_member is.
 */
__noinline int move_member(u32 tgid, u64 start, u64 from, u64 to, bool only)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid), *c;

	if (!e || e->start != start || e->session != from)
		return 0;
	if (only) {
		u32 by = e->creator.tgid;

		c = bpf_map_lookup_elem(&processes, &by);
		if (!c || c->start != e->creator.start || c->session != to)
			return 0;
	}
	return move(e, from, to);
}

/*
 * Move the members of `from` to `session`: all of them, or, if only is set,
 * those whose creator is there already. Until a pass has moved nobody; a child
 * that is being born follows its creator.
 */
static __always_inline void move_all(struct verb_args *a, bool only)
{
	u64 from = a->from, to = a->session;
	struct bpf_iter_task it;
	struct task_struct *t;
	u32 moved = 0;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		moved += move_member(t->tgid, t->start_boottime, from, to, only);
	bpf_iter_task_destroy(&it);
	a->added = moved;
}

/* Move one member; not the root of the session that it leaves. */
static __always_inline long move_one(struct verb_args *a)
{
	struct session *s = session_of(a->from);
	struct entry *e = entry_of(a->root.tgid, a->root.start);

	if (!s || (a->session && !session_of(a->session)))
		return -ENOENT;
	if (!e)
		return -ESRCH;
	if (s->root.tgid == a->root.tgid && s->root.start == a->root.start)
		return -EBUSY;
	return move(e, a->from, a->session) ? 0 : -ESRCH;
}

/* The session has no members any more, as they were let go of: it is over. */
static __always_inline long dissolve(struct verb_args *a)
{
	struct session *s = session_of(a->session);
	struct ctl *c = ctl_of(a->session);
	u32 old;

	if (!s || !c)
		return -ENOENT;
	old = *(volatile u32 *)&c->status;
	if (STATE(old) != STATE_ACTIVE)
		return -EBUSY;
	a->from = a->session;
	a->session = s->parent;
	move_all(a, false);
	a->session = a->from;
	if (a->added)
		return 0;
	if (__sync_val_compare_and_swap(&c->status, old, STATUS(STATE_EMPTY, CAUSE_RELEASED)) ==
	    old)
		emit_session(a->session, STATE_EMPTY, CAUSE_RELEASED);
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
			forget(tgid, start);
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
