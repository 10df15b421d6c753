/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What processes in no session die of, where the daemon wants to know: config.deaths. */
#ifndef LINEAGE_OUTSIDER_H
#define LINEAGE_OUTSIDER_H

#include "event.h"

struct window {
	u64 number;
	u64 used;
};

/* Only a limit: a uid that was not seen for long may be evicted. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct window);
} death_uids SEC(".maps");

static __attribute__((noinline)) int report_death(struct task_struct *t, const struct sent *s)
{
	struct window first = {}, *w;
	struct event_death *e;
	u32 uid;

	t = plain(t);
	uid = uid_of(t);
	w = bpf_map_lookup_elem(&death_uids, &uid);
	if (!w) {
		bpf_map_update_elem(&death_uids, &uid, &first, BPF_NOEXIST);
		w = bpf_map_lookup_elem(&death_uids, &uid);
	}
	if (w && !in_window(&w->number, &w->used, s->time)) {
		count(COUNT_DEATH_LIMITED);
		return 0;
	}
	e = reserve(struct event_death);
	if (!e)
		return 0;
	header_at(&e->h, s->time, EVENT_DEATH, t->tgid, s->start, 0, 0);
	e->sent = *s;
	e->pad = 0;
	describe(&e->facts, t);
	bpf_ringbuf_submit(e, wakeup(false));
	return 0;
}

/* Its exit tells that it was the OOM killer: the mark comes after the signal. */
static __attribute__((noinline)) int tell_oom(struct task_struct *t)
{
	struct sent s = { .start = t->group_leader->start_boottime,
			  .time = bpf_ktime_get_boot_ns(),
			  .signal = SIGKILL,
			  .from = SENDER_OOM };

	return report_death(t, &s);
}

#endif
