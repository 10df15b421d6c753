/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The verbs as syscall programs, run by BPF_PROG_RUN: kfuncs find and walk the tasks. */
#ifndef LINEAGE_SYSCALL_H
#define LINEAGE_SYSCALL_H

#include "sentence.h"
#include "verbs.h"

/* Carry out the verb for the named process, if it lives. */
static inline long found(struct verb_args *a, const struct identity *id,
			 long (*each)(struct verb_args *a, struct task_struct *t))
{
	struct task_struct *t = bpf_task_from_pid(id->tgid);
	long err;

	if (!t)
		return -ESRCH;
	err = is_named(t, id) ? each(a, plain(t)) : -ESRCH;
	bpf_task_release(t);
	return err;
}

static inline long create_owned(struct verb_args *a, struct task_struct *root)
{
	long err = a->owner.tgid ? found(a, &a->owner, enter_owner) : 0;

	return err ?: create(a, root);
}

static inline long whois_found(struct verb_args *a)
{
	struct task_struct *t = bpf_task_from_pid(a->root.tgid);
	long err;

	if (!t)
		return -ESRCH;
	err = whois(a, t);
	bpf_task_release(t);
	return err;
}

static inline void sentence(struct verb_args *a)
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

static inline long end_all(struct verb_args *a)
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

static inline struct met meet_all(u64 id)
{
	struct met met = {};
	struct task_struct *t;

	for_each_process(t) {
		u32 is = is_member(t->tgid, t->start_boottime, id);

		met.members += is & MEMBER;
		met.counting += is & COUNTING;
	}
	return met;
}

static inline long settle(struct verb_args *a)
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

static long reconcile_death(struct bpf_map *map, u32 *tgid, struct entry *e,
			    u32 *removed)
{
	u64 start = e->start;
	struct task_struct *t;
	bool there, gone;

	if (!start || start & ENTRY_DEAD)
		return 0;
	t = bpf_task_from_pid(*tgid);
	there = t && t->start_boottime == start;
	gone = !there || !t->signal->live.counter;
	if (t)
		bpf_task_release(t);
	if (gone && forget(*tgid, start, there))
		(*removed)++;
	return 0;
}

/* Let a global function have the process: it takes only one that is held. */
static inline int held(struct task_struct *t, int (*each)(struct task_struct *t))
{
	struct task_struct *ref = bpf_task_acquire(t);
	int n;

	if (!ref)
		return 0;
	n = each(ref);
	bpf_task_release(ref);
	return n;
}

/* Global, so that the verifier checks it once: otherwise 6.12 gives up. */
__noinline int reconcile_one(struct task_struct *t __arg_trusted)
{
	return reconcile_birth(plain(t));
}

static inline void reconcile(struct verb_args *a)
{
	struct task_struct *t;
	u32 removed = 0;

	for_each_process(t)
		tally(a, held(t, reconcile_one));
	bpf_for_each_map_elem(&processes, reconcile_death, &removed, 0);
	a->removed = removed;
}

/* Global, as reconcile_one is. */
__noinline int adopt_one(struct task_struct *t __arg_trusted)
{
	struct verb_args *a = args();

	return a ? adopt_child(a, plain(t)) : 0;
}

static inline long dissolve(struct verb_args *a)
{
	u64 from = a->session, to;
	struct ctl *c = ctl_of(from);
	struct task_struct *t;

	if (!c)
		return -ENOENT;
	if (begin_dissolve(from, c))
		return -EBUSY;
	to = home_of(from);
	for_each_process(t)
		tally(a, let_member_go(t->tgid, t->start_boottime, from, to));
	return 0;
}

#endif
