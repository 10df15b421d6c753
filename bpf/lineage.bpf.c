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

/* bpf2go exports what is named here; an unused type has no BTF. */
const struct event_birth *const unused_birth = NULL;
const struct event_exec *const unused_exec = NULL;
const struct event_exit *const unused_exit = NULL;
const struct event_killed *const unused_killed = NULL;
const struct event_stop *const unused_stop = NULL;
const struct event_crossing *const unused_crossing = NULL;
const enum sender *const unused_sender = NULL;
const enum sent_flags *const unused_sent_flags = NULL;
const struct event_reparent *const unused_reparent = NULL;
const struct event_reaped *const unused_reaped = NULL;
const struct event_session *const unused_session = NULL;
const struct event_listen *const unused_listen = NULL;
const struct seen *const unused_seen = NULL;
const enum event_type *const unused_event_type = NULL;
const enum entry_flags *const unused_entry_flags = NULL;
const enum counter *const unused_counter = NULL;
const enum source *const unused_source = NULL;
const enum runs *const unused_runs = NULL;

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

VERB(create, err = create_found(a))
VERB(end, err = end_all(a))
VERB(sentence, sentence(a))
VERB(settle, err = settle(a))
VERB(release, err = release(a))
VERB(protect, err = protect_found(a))
VERB(mark, err = mark(a))
VERB(whois, err = whois_found(a))
VERB(runs, err = runs_found(a))
VERB(reconcile, reconcile(a))
VERB(terms, err = set_terms(a))
VERB(pause, err = set_pause(a))
VERB(enter, err = enter_found(a))
VERB(adopt, adopt_all(a))
VERB(follow, follow_all(a))
VERB(move, err = move_one(a))
VERB(dissolve, err = dissolve(a))
VERB(carry, carry_all(a))
VERB(carry_dead, err = carry_dead(a))
VERB(fill, bpf_for_each_map_elem(&sessions, fill_slot, NULL, 0))
