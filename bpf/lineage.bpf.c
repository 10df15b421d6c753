//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The programs for kernels that find, walk and signal tasks from BPF (6.7, and 6.13 for
 * the signals). What they do is in one header for each hook family; here and in hooks.h
 * is where they are attached. Programs on one tracepoint run in the order of their
 * attachment, and user space attaches bookkeeping before sentence.
 */
#include "hooks.h"
#include "sentence.h"
#include "syscall.h"

/* bpf2go exports the types that are named here; an unused one has no BTF. */
const union exported {
	struct event_birth birth;
	struct event_exec exec;
	struct event_killed killed;
	struct event_stop stop;
	struct event_crossing crossing;
	struct death death;
	struct event_moved moved;
	enum sender sender;
	enum sent_flags sent_flags;
	struct event_reparent reparent;
	struct event_reaped reaped;
	struct event_session session;
	struct event_listen listen;
	struct seen seen;
	enum event_type event_type;
	enum entry_flags entry_flags;
	enum counter counter;
	enum source source;
	enum runs runs;
} *const exported = NULL;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(fork_sentence)
{
	carry_out();
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec_sentence)
{
	carry_out();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exit_sentence)
{
	carry_out();
	return 0;
}

/* Queue a slot without a session, or count the session. */
static long fill_slot(void *map, u32 *slot, struct session *s, void *ctx)
{
	u32 free = *slot;

	if (s->id)
		__sync_fetch_and_add(&control.taken, 1);
	else
		bpf_map_push_elem(&free_slots, &free, BPF_ANY);
	return 0;
}

#define VERB(name, body)                      \
	SEC("syscall")                        \
	int verb_##name(void *ctx)            \
	{                                     \
		struct verb_args *a = args(); \
		long err = 0;                 \
                                              \
		if (!a)                       \
			return -EINVAL;       \
		bpf_rcu_read_lock();          \
		body;                         \
		bpf_rcu_read_unlock();        \
		return err;                   \
	}

#define EACH(process)          \
	struct task_struct *t; \
	for_each_process(t)    \
	process

VERB(create, err = found(a, &a->root, create_owned))
VERB(end, err = end_all(a))
VERB(sentence, sentence(a))
VERB(settle, err = settle(a))
VERB(release, err = release(a))
VERB(protect, err = found(a, &a->root, protect))
VERB(mark, err = mark(a))
VERB(whois, err = whois_found(a))
VERB(runs, err = found(a, &a->root, runs))
VERB(reconcile, reconcile(a))
VERB(terms, err = set_terms(a))
VERB(pause, err = set_pause(a))
VERB(enter, err = found(a, &a->root, enter_stranger))
/*
 * Enter every outsider whose parent is in the session. control.adopting is set before
 * the first pass. So once a pass has found none, none is missed: the fork hook enters
 * the processes born since.
 */
VERB(adopt, EACH(tally(a, held(t, adopt_one))))
/* Repeated until a pass moves none; a child that is being born follows its creator. */
VERB(follow, EACH(tally(a, follow_member(t->tgid, t->start_boottime, a->from,
					 a->session))))
VERB(move, err = move_one(a))
VERB(dissolve, err = dissolve(a))
VERB(carry, EACH(a->added += carry_task(plain(t))))
VERB(carry_dead, err = carry_dead(a))
VERB(fill, bpf_for_each_map_elem(&sessions, fill_slot, NULL, 0))
