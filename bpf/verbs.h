/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The session verbs, each for a task that was found: how to find it differs, see
 * syscall.h and walk.h. Arguments and results are in the `verb` map. They return 0 or
 * -errno.
 */
#ifndef LINEAGE_VERBS_H
#define LINEAGE_VERBS_H

#include "judge.h"
#include "open.h"

static inline struct verb_args *args(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&verb, &zero);
}

/*
 * May the process be entered? It must be the named one, alive, born, no (kernel) thread.
 */
static inline bool is_named(struct task_struct *t, const struct identity *id)
{
	return (u32)t->tgid == id->tgid && t->pid == t->tgid &&
	       (!id->start || t->start_boottime == id->start) &&
	       t->signal->live.counter && !(t->flags & PF_KTHREAD) && !is_new(t);
}

/* The owner is entered before its session: the root's first child may meet both. */
static inline long enter_owner(struct verb_args *a, struct task_struct *t)
{
	a->owner.start = t->start_boottime;
	return enter(t, FLAG_OWNER);
}

static inline long create(struct verb_args *a, struct task_struct *root)
{
	long err;
	u32 slot;

	if (!take_slot(&slot))
		return -ENOSPC;
	err = create_in(a, root, slot, a->flags & SESSION_KEPT);
	if (err)
		give_back(slot);
	return err;
}

/* The caller makes a pass. */
static inline long end(struct verb_args *a)
{
	struct ctl *c = ctl_of(a->session);

	if (!c)
		return -ENOENT;
	if (a->flags & END_AT_HALT) {
		WRITE_ONCE(c->halt, a->grace);
		return 0;
	}
	if (!begin_end(a->session, a->cause, a->grace)) {
		if (a->grace)
			shorten(c, bpf_ktime_get_ns() + a->grace);
		else
			condemn(a->session);
	}
	return 0;
}

/* What a walk that settles a session finds out about a process, as bits. */
#define MEMBER 1
/* Its death is being counted, in a session that cannot be told any more; never in the
 * baseline object, where the entry stays whole until then. */
#define COUNTING 2

/* Global, so that the verifier looks at it once and not in each turn of a walk. */
__noinline int is_member(u32 tgid, u64 start, u64 id)
{
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	if (e && !e->start)
		return COUNTING;
	return e && e->start == start && e->session && chain_has(e->session, id);
}

/*
 * Close the session if it is proven empty: no live member by the counters and by a walk
 * that met `a->live` members, and none dying. If the walk met none, no death that was
 * being counted, and there was no birth (forks was read before it), a live count that
 * drifted is corrected.
 */
static inline void close_if_empty(struct verb_args *a, struct session *s,
				  struct ctl *c, u64 forks, u64 counting)
{
	u32 status;

	if (a->live || READ_ONCE(s->forks) != forks)
		return;
	if (s->live) {
		s64 live = s->live;

		if (counting)
			return;
		if (swap(&s->live, live, 0)) {
			__sync_fetch_and_add(&s->held, -live);
			count(COUNT_DRIFT);
			c->flags |= SESSION_DRIFTED;
		}
	}
	/* Still active, but without a member: its root was the last. */
	begin_end(a->session, c->over ? CAUSE_MAX_PROCESSES : CAUSE_ROOT_EXIT, 0);
	if (READ_ONCE(s->dying) > 0)
		return;
	status = READ_ONCE(c->status);
	if (STATE(status) >= STATE_EMPTY)
		return;
	if (swap(&c->status, status, STATUS(STATE_EMPTY, CAUSE(status))))
		emit_session(a->session, STATE_EMPTY, CAUSE(status));
}

#ifndef BASELINE
struct heirs {
	struct session *of;
	u64 from, to;
};

static long hand_dead(struct bpf_map *map, u32 *tgid, struct entry *e,
		      struct heirs *h)
{
	if (e->session == h->from && swap(&e->session, h->from, h->to))
		__sync_fetch_and_add(&h->of->held, -1);
	return 0;
}

/*
 * The unreaped dead also count in the sessions around it, and are subtracted there when
 * they are reaped. So each is handed to the parent session before the record leaves.
 */
static inline void hand_over_dead(struct session *s, u64 id)
{
	struct heirs h = { .of = s,
			   .from = id | SESSION_DEAD,
			   .to = s->parent | SESSION_DEAD };

	bpf_for_each_map_elem(&processes, hand_dead, &h, 0);
}
#else
#define hand_over_dead(s, id) \
	((void)0) /* user space has, one by one: see hand_one() */
#endif

/*
 * A record leaves when its subtree is empty: no member, no dying process, no nested
 * session, no dead one that an outer session still counts. Else a walk up from inside
 * ends here, and outer sessions neither count nor end what is below. The state is taken
 * away first. To nest, a session counts first and then reads it: one sees the other.
 */
static inline long release(struct verb_args *a)
{
	u64 id = a->session;
	struct session *s = session_of(id);
	struct ctl *c = ctl_of(id);
	u32 slot = (u32)id, status;
	bool nested, busy;

	if (!s || !c)
		return -ENOENT;
	status = READ_ONCE(c->status);
	if (STATE(status) < STATE_EMPTY || !swap(&c->status, status, STATE_FREE))
		return -EBUSY;
	nested = fetch_add(&c->nested,
			   1); /* 1, as adding 0 would be no barrier before 5.12 */
	__sync_fetch_and_add(&c->nested, -1);
	busy = nested || s->live > 0 || s->dying > 0;
	if (!busy && s->parent && s->held > 0) {
		hand_over_dead(s, id);
		busy = READ_ONCE(s->held) > 0; /* one is being reaped right now */
	}
	if (busy) {
		WRITE_ONCE(c->status, status);
		return -EBUSY;
	}
	if (c->flags & SESSION_AGENT)
		dismiss(c->uid);
	unnest(s->parent);
	s->id = 0;
	c->id = 0;
	c->status = 0;
	give_back(
		slot); /* if that fails the slot is not used again, but the record is gone */
	return 0;
}

/* The process that has this PID now: alive or a zombie, member or not. */
static inline long whois(struct verb_args *a, struct task_struct *t)
{
	if (t->pid != t->tgid)
		return -ESRCH; /* a thread */
	a->root.start = t->start_boottime;
	return 0;
}

/* Does the process execute the file that is descriptor a->flags of the caller? */
static inline long runs(struct verb_args *a, struct task_struct *t)
{
	struct entry *e = entered(t->tgid, t->start_boottime);
	struct file_id exe, named;

	if (e)
		exe = e->exe;
	else
		find_exe(&exe, t);
	identify_open(&named, a->flags);
	a->flags = is_file(&exe, &named) ? RUNS_FILE : 0;
	if (BPF_CORE_READ(t, cred, user_ns, level))
		a->flags |= RUNS_INSIDE;
	return 0;
}

static inline long protect(struct verb_args *a, struct task_struct *t)
{
	struct entry *e = entered(t->tgid, t->start_boottime);

	if (e && e->session)
		return -EPERM; /* not a member: its session could not be ended */
	return enter(t, FLAG_PROTECTED);
}

/*
 * Set the flag for a signal that user space is about to send, as a pass does; take the
 * protection of a process away; or set its call. Or note that a session has a cgroup.
 */
static inline long mark(struct verb_args *a)
{
	struct entry *e = entered(a->root.tgid, a->root.start);
	struct ctl *c = ctl_of(a->session);

	if (a->session && !c)
		return -ENOENT;
	if (c) {
		c->flags |= SESSION_CGROUP;
		return 0;
	}
	if (!e)
		return -ESRCH;
	set_flags(e, a->flags);
	clear_flags(e, a->cleared);
	if (a->calls)
		WRITE_ONCE(e->creator.call, a->call);
	return 0;
}

/*
 * May a process be entered for the session, or moved there? Not if the session is
 * dissolved, and not if it is over or condemned: the process would be killed.
 */
static inline long admits(u64 id)
{
	if (!id || home_of(id) != id)
		return -ENOENT;
	return chain_demands(id) & CONDEMNED ? -EBUSY : 0;
}

/*
 * A member of a session that has no record is damage: no record leaves while it has
 * members. It is counted, and moved to its creator's session, or to none.
 */
__noinline int repair(u32 tgid, u64 start)
{
	struct entry *e = entered(tgid, start), *by;
	u64 from, to = 0;

	if (!e)
		return 0;
	from = e->session;
	if (!from || session_of(from))
		return 0;
	by = entered(e->creator.tgid, e->creator.start);
	if (by)
		to = home_of(by->session);
	if (move(tgid, start, from, to) <= 0)
		return 0;
	count(COUNT_NO_SESSION);
	return 1;
}

/*
 * Enter a process without an entry whose parent was a member before it was born: a
 * missed birth. One that was born before its parent was entered, or before its parent's
 * session began, is no such case, and neither is one that has an entry without a session.
 * Returns 1 if it was entered or repaired, -1 without room for it.
 */
static inline int reconcile_birth(struct task_struct *t)
{
	struct task_struct *parent = t->real_parent->group_leader;
	u32 tgid = t->tgid;
	struct entry *p;
	struct entry n = {
		.start = t->start_boottime,
		.evidence = EVIDENCE_RECONCILED,
	};
	long err;

	if (!t->signal->live.counter)
		return 0;
	if (entered(tgid, n.start))
		return repair(tgid, n.start);
	p = entered(parent->tgid, parent->start_boottime);
	if (!p || !p->session || n.start <= p->since)
		return 0;
	n.session = session_at(p->session, n.start);
	if (!n.session)
		return 0;
	n.since =
		n.start; /* so that its own children are found in the same walk */
	n.creator.start = p->start;
	n.creator.tgid = parent->tgid;
	n.creator.call = call_of(p);
	find_exe(&n.exe, t);
	err = place(tgid, &n);
	if (err)
		return err == -EEXIST ? 0 : -1;
	chain_count_cold(n.session, BORN);
	count(COUNT_RECONCILED);
	if (!t->signal->live.counter) {
		forget(tgid, n.start, 0);
		return 0;
	}
	emit_birth(t, tgid, &n, cgroup_of(t), bpf_ktime_get_boot_ns());
	admitted(n.session);
	return 1;
}

/* Give an active session other limits, and a->flags, a->rule and a->name. */
static inline long set_terms(struct verb_args *a)
{
	struct session *s = session_of(a->session);
	struct ctl *c = ctl_of(a->session);

	if (!s || !c)
		return -ENOENT;
	if (STATE(READ_ONCE(c->status)) != STATE_ACTIVE)
		return -EBUSY;
	c->grace = a->grace;
	c->expires = a->max_lifetime ? s->created + a->max_lifetime : 0;
	c->max_processes = a->max_processes;
	c->max_rss = a->max_rss;
	c->idle = a->idle;
	c->rule = a->rule;
	c->flags = a->flags | (c->flags & (SESSION_KEPT | SESSION_AGENT |
					   SESSION_JOINED | SESSION_CGROUP));
	note_spares(c);
	__builtin_memcpy(c->name, a->name, sizeof(c->name));
	if (c->expires)
		arm_boot(c->expires);
	arm(1); /* its root may be gone */
	return 0;
}

/*
 * Enter an outsider on evidence, or move a member of a->from, which may be its root.
 * The creator is a->owner, if that is known.
 */
static inline long enter_stranger(struct verb_args *a, struct task_struct *t)
{
	long err = admits(a->session);

	if (err)
		return err;
	err = adopt(t, a->from, a->session, &a->owner, a->evidence);
	return err > 0 ? 0 : err ?: -EPERM;
}

/*
 * Enter an outsider whose parent is in the session. As for the next two: 1 if a walk
 * changed something, and -1 if it should have, so that it is repeated.
 */
static inline int adopt_child(struct verb_args *a, struct task_struct *t)
{
	struct task_struct *up = t->real_parent->group_leader;
	struct identity parent = { .start = up->start_boottime, .tgid = up->tgid };
	struct entry *e = entered(parent.tgid, parent.start);

	if (!e || e->session != a->session || !t->signal->live.counter ||
	    foreign(t))
		return 0;
	return adopt(t, 0, a->session, &parent,
		     EVIDENCE(EVIDENCE_ADOPTED, SOURCE_PARENT));
}

/*
 * Move one process of a walk if its creator is in `to` already; 1 if it was moved.
 * Global, as is_member is.
 */
__noinline int follow_member(u32 tgid, u64 start, u64 from, u64 to)
{
	struct entry *e = entered(tgid, start), *c;

	if (!e)
		return 0;
	c = entered(e->creator.tgid, e->creator.start);
	if (!c || c->session != to || chain_demands(to) & CONDEMNED)
		return 0;
	return move(tgid, start, from, to);
}

/* Note what a walk did about one process. */
static inline void tally(struct verb_args *a, int n)
{
	a->added += n > 0;
	a->failed += n < 0;
}

/* Move one member; not the root of the session that it leaves. */
static inline long move_one(struct verb_args *a)
{
	struct entry *e = entered(a->root.tgid, a->root.start);
	long err = session_of(a->from) ? admits(a->session) : -ENOENT;

	if (err)
		return err;
	if (!e)
		return -ESRCH;
	if (is_root(a->from, a->root.tgid, a->root.start))
		return -EPERM;
	return move(a->root.tgid, a->root.start, a->from, a->session) > 0 ? 0 :
									    -ESRCH;
}

/*
 * From here on the session has no effect, and nothing is signalled for it. Walks move
 * its members to the session around it, until a walk finds none. Sessions nested in it
 * stay, and belong to the session around it through this one.
 */
static inline long begin_dissolve(u64 id, struct ctl *c)
{
	u32 old = READ_ONCE(c->status);

	if (STATE(old) == STATE_DISSOLVED)
		return 0;
	if (STATE(old) != STATE_ACTIVE || c->paused ||
	    !swap(&c->status, old, STATUS(STATE_DISSOLVED, CAUSE_RELEASED)))
		return -EBUSY;
	c->max_processes = 0;
	emit_session(id, STATE_DISSOLVED, CAUSE_RELEASED);
	return 0;
}

/* Move a member of a session that is being dissolved; 1 if moved. Global, as is_member. */
__noinline int let_member_go(u32 tgid, u64 start, u64 from, u64 to)
{
	struct entry *e = entered(tgid, start);
	int moved = move(tgid, start, from, to);

	if (e && moved > 0 && !is_root(to, tgid, start))
		clear_flags(e, FLAG_ROOT);
	return moved;
}

/* Enter a living process that the elder has. */
static inline bool carry_task(struct task_struct *t)
{
	u32 tgid = t->tgid;
	u64 start = t->start_boottime;
	struct entry *e;

	if (!t->signal->live.counter)
		return false;
	e = entered(tgid, start);
	if (e)
		return carry_again(tgid, start, e);
	if (!carry(t, tgid, start))
		return false;
	/* If it died before the insert, our exit hook did not count it. */
	if (!t->signal->live.counter)
		forget(tgid, start, 0);
	return true;
}

/* Enter a dead process of the elder. If it was reaped since, settle finds out. */
static inline long carry_dead(struct verb_args *a)
{
	struct identity id = a->root;
	u32 tgid = id.tgid;
	struct entry n = {
		.start = ENTRY_DEAD | ENTRY_TEARING | id.start,
		.session = a->session | SESSION_DEAD,
	};
	struct entry *e;

	if (insert(tgid, &n))
		return -EEXIST;
	chain_count_cold(a->session, FOUND_DEAD);
	e = dead_at(&id);
	if (e && !a->flags)
		torn_down(&id, e);
	return 0;
}

#endif
