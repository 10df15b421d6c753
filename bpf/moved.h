/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A member comes into another cgroup. It stays a member, but the limits of its session's
 * cgroup no longer hold it. All moves are reported; user space knows which leave that cgroup.
 */
#ifndef LINEAGE_MOVED_H
#define LINEAGE_MOVED_H

#include "signalled.h"

/* The current process has done it. Global, as it is rare. path: a kernel address, or 0. */
__noinline int report_moved(u32 tgid, u64 start, u64 session, u64 cgroup, u64 path)
{
	struct sent s = { .time = bpf_ktime_get_boot_ns() };
	struct event_moved *m;

	if (!within_limit(session, s.time)) {
		count(COUNT_MOVED_LIMITED);
		return 0;
	}
	describe_sender(&s);
	m = reserve(struct event_moved);
	if (!m)
		return 0;
	header_at(&m->h, s.time, EVENT_MOVED, tgid, start, session, 0);
	m->cgroup = cgroup;
	m->by = s.by;
	m->session = s.session;
	m->facts = s.facts;
	m->pad = 0;
	if (!path ||
	    bpf_probe_read_kernel_str(m->path, sizeof(m->path), (void *)path) < 0)
		m->path[0] = 0;
	bpf_ringbuf_submit(m, wakeup(false));
	return 0;
}

/*
 * The kernel also comes here for each hierarchy of version 1. Only one task moves at a
 * time, so the process's cgroup is still the new one. Threads move inside one limit only.
 */
static inline void on_moved(struct cgroup *to, const char *path,
			    struct task_struct *t)
{
	u32 tgid = t->tgid;
	struct entry *e;

	if (t->pid != t->tgid)
		return;
	e = entered(tgid, t->start_boottime);
	if (!e || !(demanded(READ_ONCE(e->session)) & IN_CGROUP))
		return;
	t = plain(t);
	if ((u64)t->cgroups->dfl_cgrp == (u64)to)
		report_moved(tgid, e->start, e->session, cgroup_of(t), (u64)path);
}

#endif
