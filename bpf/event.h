/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Events feed the picture, never the truth: one that is lost is counted, and
 * the gap shows in the CPU's sequence numbers.
 */
#ifndef LINEAGE_EVENT_H
#define LINEAGE_EVENT_H

#include "kfuncs.h"
#include "maps.h"
#include <bpf/bpf_core_read.h>

/*
 * The task as a pointer that the verifier does not trust, for rare paths. For each
 * pointer read through a trusted one, kernels from 6.4 to 6.18 search all types by
 * name, four times in a row: that was most of a cold start. Each read through an
 * untrusted one checks the address, which made an exec 5 % slower: not for frequent
 * paths.
 */
static inline struct task_struct *plain(struct task_struct *t)
{
#ifndef BASELINE
	return bpf_rdonly_cast(t, bpf_core_type_id_kernel(struct task_struct));
#else
	return t;
#endif
}

static inline void identify(struct identity *id, struct task_struct *leader)
{
	id->start = leader->start_boottime;
	id->tgid = leader->tgid;
	id->pad = 0;
}

static inline void header_at(struct event_header *h, u64 time, u16 type, u32 tgid,
			     u64 start, u64 session, u32 flags)
{
	h->type = type;
	h->cpu = bpf_get_smp_processor_id();
	h->flags = flags;
	h->seq = count(COUNT_SEQ);
	h->time = time;
	h->process.start = start;
	h->process.tgid = tgid;
	h->process.pad = 0;
	h->session = session;
}

static inline void header(struct event_header *h, u16 type, u32 tgid, u64 start,
			  u64 session, u32 flags)
{
	header_at(h, bpf_ktime_get_boot_ns(), type, tgid, start, session, flags);
}

/*
 * A wake-up costs ten times as much as the rest of a hook. While the reader says that
 * it polls, only urgent events or a ring that is half full wake it.
 */
static inline u64 wakeup(bool urgent)
{
	if (urgent)
		return BPF_RB_FORCE_WAKEUP;
	if (!READ_ONCE(control.polling))
		return 0;
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > config.ring_half)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

/* The ring has no room for an event. Its number is used up, so the gap is visible. */
static inline void *lost(void)
{
	count(COUNT_SEQ);
	count(COUNT_LOST);
	return NULL;
}

#define reserve(type) \
	((type *)(bpf_ringbuf_reserve(&events, sizeof(type), 0) ?: lost()))

/*
 * Has it not run yet? Its fork hook may be about to enter it, and an entry that is there
 * before would take it out of its creator's session.
 */
static inline bool is_new(struct task_struct *t)
{
	struct task_struct___v513 *old = (void *)t;

	if (bpf_core_field_exists(t->__state))
		return t->__state & TASK_NEW;
	return BPF_CORE_READ(old, state) & TASK_NEW;
}

static inline u32 uid_of(struct task_struct *t)
{
	return t->cred->euid.val;
}

static inline u64 cgroup_of(struct task_struct *t)
{
	return t->cgroups->dfl_cgrp->kn->id;
}

/* The name is only text. If it changes meanwhile, some of the copy is old and some is new. */
static inline void describe(struct facts *f, struct task_struct *t)
{
	/* Else the compiler copies by halves, as facts has only u32. */
	u64 *to = (u64 *)f->comm;

	f->uid = uid_of(t);
	to[0] = ((u64 *)t->comm)[0];
	to[1] = ((u64 *)t->comm)[1];
}

__noinline int emit_session(u64 session, u32 state, u32 cause)
{
	struct event_session *e = reserve(struct event_session);

	if (!e)
		return 0;
	header(&e->h, EVENT_SESSION, 0, 0, session, 0);
	e->state = state;
	e->cause = cause;
	bpf_ringbuf_submit(e, wakeup(true));
	return 0;
}

static inline void emit_birth(struct task_struct *t, u32 tgid,
			      const struct entry *n, u64 cgroup, u64 time)
{
	struct event_birth *e = reserve(struct event_birth);

	if (!e)
		return;
	header_at(&e->h, time, EVENT_BIRTH, tgid, n->start, n->session, n->flags);
	e->creator = (struct identity){ .start = n->creator.start,
					.tgid = n->creator.tgid };
	identify(&e->parent, t->real_parent->group_leader);
	e->cgroup = cgroup;
	e->evidence = n->evidence;
	describe(&e->facts, t);
	bpf_ringbuf_submit(e, wakeup(n->evidence != EVIDENCE_FORK));
}

#endif
