/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The verbs as syscall programs, run by BPF_PROG_RUN: kfuncs find and walk the tasks. */
#ifndef LINEAGE_SYSCALL_H
#define LINEAGE_SYSCALL_H

#include "sentence.h"
#include "verbs.h"

/* The named process if it lives: a thread group leader, not a kernel thread. */
static __always_inline struct task_struct *find(const struct identity *id)
{
	struct task_struct *t = bpf_task_from_pid(id->tgid);

	if (!t)
		return NULL;
	if (!is_named(t, id)) {
		bpf_task_release(t);
		return NULL;
	}
	return t;
}

/* Carry out the verb for the named process. */
static __always_inline long found(struct verb_args *a, const struct identity *id,
				  long (*each)(struct verb_args *a, struct task_struct *t))
{
	struct task_struct *t = find(id);
	long err;

	if (!t)
		return -ESRCH;
	err = each(a, plain(t));
	bpf_task_release(t);
	return err;
}

static __always_inline long create_owned(struct verb_args *a, struct task_struct *root)
{
	long err = a->owner.tgid ? found(a, &a->owner, enter_owner) : 0;

	return err ?: create(a, root);
}

static __always_inline long whois_found(struct verb_args *a)
{
	struct task_struct *t = bpf_task_from_pid(a->root.tgid);
	long err;

	if (!t)
		return -ESRCH;
	err = whois(a, t);
	bpf_task_release(t);
	return err;
}

static __always_inline void sentence(struct verb_args *a)
{
	struct pass p = {};

	/* Everything due is carried out now; what becomes due meanwhile stays due. */
	take_out(&control.due);
	take_out(&control.due_boot);
	pass_all(&p);
	a->visited = p.visited;
	a->sent = p.sent;
	a->failed = p.failed;
	a->unsent = p.unsent;
	a->more = READ_ONCE(control.due) != 0;
}

static __always_inline long end_all(struct verb_args *a)
{
	bool later = a->flags & END_AT_HALT;
	long err = end(a);

	if (!err && !later)
		sentence(a);
	return err;
}

struct met {
	u64 members, counting;
};

static __always_inline struct met meet_all(u64 id)
{
	struct met met = {};
	struct bpf_iter_task it;
	struct task_struct *t;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it))) {
		u32 is = is_member(t->tgid, t->start_boottime, id);

		met.members += is & MEMBER;
		met.counting += is & COUNTING;
	}
	bpf_iter_task_destroy(&it);
	return met;
}

static __always_inline long settle(struct verb_args *a)
{
	struct session *s = session_of(a->session);
	struct ctl *c = ctl_of(a->session);
	struct met met;
	u64 forks;

	if (!s || !c)
		return -ENOENT;
	bpf_for_each_map_elem(&processes, settle_dead, NULL, 0);
	forks = READ_ONCE(s->forks);
	met = meet_all(a->session);
	a->live = met.members;
	close_if_empty(a, s, c, forks, met.counting);
	return 0;
}

static long reconcile_death(struct bpf_map *map, u32 *tgid, struct entry *e, u32 *removed)
{
	u64 start = e->start;
	struct task_struct *t;
	bool gone;

	if (!start || start & ENTRY_DEAD)
		return 0;
	t = bpf_task_from_pid(*tgid);
	gone = !t || t->start_boottime != start || !t->signal->live.counter;
	if (t)
		bpf_task_release(t);
	if (gone && forget(*tgid, start))
		(*removed)++;
	return 0;
}

/* Global, so that the verifier checks it once: otherwise 6.12 gives up. */
__noinline int reconcile_one(struct task_struct *t __arg_trusted)
{
	return reconcile_birth(plain(t));
}

static __always_inline void reconcile(struct verb_args *a)
{
	u32 added = 0, removed = 0, failed = 0;
	struct bpf_iter_task it;
	struct task_struct *t;
	int n;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it))) {
		struct task_struct *ref = bpf_task_acquire(t);

		if (!ref)
			continue;
		n = reconcile_one(ref);
		added += n > 0;
		failed += n < 0;
		bpf_task_release(ref);
	}
	bpf_iter_task_destroy(&it);
	bpf_for_each_map_elem(&processes, reconcile_death, &removed, 0);
	a->added = added;
	a->removed = removed;
	a->failed = failed;
}

/* Global, as reconcile_one is. */
__noinline int adopt_one(struct task_struct *t __arg_trusted)
{
	struct verb_args *a = args();

	return a ? adopt_child(a, plain(t)) : 0;
}

/*
 * Enter every outsider whose parent is in the session. control.adopting is set before
 * the first pass. So once a pass has found none, none is missed: the fork hook enters
 * the processes born since.
 */
static __always_inline void adopt_all(struct verb_args *a)
{
	struct bpf_iter_task it;
	struct task_struct *t;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it))) {
		struct task_struct *ref = bpf_task_acquire(t);

		if (!ref)
			continue;
		tally(a, adopt_one(ref));
		bpf_task_release(ref);
	}
	bpf_iter_task_destroy(&it);
}

/*
 * Move the members of `from` whose creator is in `session` already. Repeated until a
 * pass moves none; a child that is being born follows its creator.
 */
static __always_inline void follow_all(struct verb_args *a)
{
	u64 from = a->from, to = a->session;
	struct bpf_iter_task it;
	struct task_struct *t;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		tally(a, follow_member(t->tgid, t->start_boottime, from, to));
	bpf_iter_task_destroy(&it);
}

static __always_inline long dissolve(struct verb_args *a)
{
	u64 from = a->session, to;
	struct ctl *c = ctl_of(from);
	struct bpf_iter_task it;
	struct task_struct *t;

	if (!c)
		return -ENOENT;
	if (begin_dissolve(from, c))
		return -EBUSY;
	to = home_of(from);
	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		tally(a, let_member_go(t->tgid, t->start_boottime, from, to));
	bpf_iter_task_destroy(&it);
	return 0;
}

/* Enter every living process that the elder has. */
static __always_inline void carry_all(struct verb_args *a)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	u32 added = 0;

	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it)))
		added += carry_task(plain(t));
	bpf_iter_task_destroy(&it);
	a->added = added;
}

#endif
