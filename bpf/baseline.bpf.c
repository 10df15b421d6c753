//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The programs for kernels from 5.10 on that cannot load lineage.bpf.c: levels 1 and 2.
 * No signal is sent to another process, only verbs change states, and the verbs are
 * walks.
 */
#define BASELINE
#include "hooks.h"
#include "walk.h"

/* Runs when the parent waits. sched_process_free follows an RCU grace period later. */
SEC("fentry/release_task")
int BPF_PROG(release_reaped, struct task_struct *t)
{
	on_free(t);
	return 0;
}

#define WALK(name, each, last)                      \
	SEC("iter/task")                            \
	int verb_##name(struct bpf_iter__task *ctx) \
	{                                           \
		struct task_struct *t = ctx->task;  \
		struct verb_args *a = args();       \
                                                    \
		if (!a)                             \
			return 0;                   \
		if (!t)                             \
			last;                       \
		else                                \
			each;                       \
		return 0;                           \
	}

/* For each process alone, not for its other threads. */
#define WALK_LEADERS(name, each) \
	WALK(name, if (t->pid == t->tgid) each, a->err = 0)

/*
 * Runs its body once, when the walk over all maps is over: they are the fewest. An
 * iterator over the one element of `verb` would be direct, but some kernels refuse
 * iterators that may write to elements (iter/bpf_map_elem).
 */
#define VERB(name, body)                               \
	SEC("iter/bpf_map")                            \
	int verb_##name(struct bpf_iter__bpf_map *ctx) \
	{                                              \
		struct verb_args *a = args();          \
                                                       \
		if (a && !ctx->map)                    \
			a->err = body;                 \
		return 0;                              \
	}

WALK(own, walked(a, t, &a->owner, enter_owner), (void)0)
WALK(create, walked(a, t, &a->root, create_owned), (void)0)
WALK_LEADERS(sentence, sentence_walked(a, t))
WALK(settle, settle_walked(a, t), settle(a))
WALK(protect, walked(a, t, &a->root, protect), (void)0)
WALK(whois, whois_walked(a, t), (void)0)
WALK(runs, walked(a, t, &a->root, runs), (void)0)
WALK_LEADERS(reconcile, tally(a, reconcile_birth(t)))
WALK(bury, bury_walked(a, t), (bury_unmet(a), a->err = 0))
VERB(end, end(a))
VERB(release, release(a))
VERB(mark, mark(a))
VERB(reap, reap(a))
WALK(enter, walked(a, t, &a->root, enter_stranger), (void)0)
WALK_LEADERS(adopt, tally(a, adopt_child(a, t)))
WALK_LEADERS(follow, tally(a, follow_member(t->tgid, t->start_boottime, a->from,
					    a->session)))
WALK(dissolve, dissolve_walked(a, t), (void)0)
WALK_LEADERS(carry, a->added += carry_task(t))
VERB(terms, set_terms(a))
VERB(pause, set_pause(a))
VERB(move, move_one(a))
VERB(carry_dead, carry_dead(a))
VERB(hand_dead, hand_one(a))
