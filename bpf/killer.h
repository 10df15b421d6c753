/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Who sent a member the signal that it dies of. Whether it dies is often decided only
 * when it takes the signal: it may be blocked, or a debugger may have it. So the hook on
 * signals remembers the last one that may kill, in one element for each process, and the
 * exit reports it if the process died of it. However many signals a member sends itself,
 * that is one event.
 */
#ifndef LINEAGE_KILLER_H
#define LINEAGE_KILLER_H

#include "event.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct sent);
} killers SEC(".maps");

/*
 * What outsiders died of, by uid and the last bits of the PID: the deaths of one user take
 * no place of others'. Where config.deaths is 0 it has one element, and no code uses it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct death);
} deaths SEC(".maps");

#define DEATHS_PER_UID 256

static inline struct death *death_of(struct task_struct *t, u64 *key)
{
	struct death *d;

	*key = (u64)uid_of(t) << 32 | (t->tgid & (DEATHS_PER_UID - 1));
	d = bpf_map_lookup_elem(&deaths, key);
	if (!d || d->tgid != (u32)t->tgid ||
	    d->sent.start != t->group_leader->start_boottime)
		return NULL;
	return d;
}

static inline struct sent *signal_to(u32 tgid, u64 start)
{
	struct sent *s = bpf_map_lookup_elem(&killers, &tgid);

	return s && s->start == start ? s : NULL;
}

static inline void forget_signal(u32 tgid, u64 start)
{
	if (signal_to(tgid, start))
		bpf_map_delete_elem(&killers, &tgid);
}

/* A process that handles a request to end, and exits later than this, has other reasons. */
#define HANDLED_NS 10000000000ULL

/* Was this its end? Either it died of the signal, or it handled it and then exited. */
static inline bool ended_by(const struct sent *s, struct task_struct *t)
{
	u32 sig;

	if (t->signal->flags & SIGNAL_GROUP_EXIT)
		sig = t->signal->group_exit_code & 0x7f;
	else
		sig = t->group_leader->exit_code & 0x7f;
	if (sig)
		return sig == s->signal;
	return s->flags & SENT_HANDLED &&
	       bpf_ktime_get_boot_ns() - s->time < HANDLED_NS;
}

static inline void tell_killer(struct sent *k, struct task_struct *t, u32 tgid,
			       u64 start)
{
	struct sent *s = signal_to(tgid, start);

	if (s && ended_by(s, t))
		*k = *s;
	else
		*k = (struct sent){};
	if (k->signal == SIGKILL && k->from == SENDER_KERNEL && t->signal->oom_mm)
		k->from = SENDER_OOM;
}

/* The mark of the OOM killer comes after its signal. */
static inline void note_oom(struct task_struct *t)
{
	u64 key;
	struct death *d = death_of(plain(t), &key);

	if (d && d->sent.from == SENDER_KERNEL)
		d->sent.from = SENDER_OOM;
}

#endif
