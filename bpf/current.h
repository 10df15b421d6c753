/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The current process. Typed only since 5.11 (bpf_get_current_task_btf). */
#ifndef LINEAGE_CURRENT_H
#define LINEAGE_CURRENT_H

#include "atomics.h"
#include <bpf/bpf_core_read.h>

static inline u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

#ifndef BASELINE

static inline u64 current_start(void)
{
	return bpf_get_current_task_btf()->group_leader->start_boottime;
}

static inline u64 current_cgroup(void)
{
	return bpf_get_current_task_btf()->cgroups->dfl_cgrp->kn->id;
}

#else

static inline u64 current_start(void)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	return BPF_CORE_READ(t, group_leader, start_boottime);
}

static inline u64 current_cgroup(void)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	return BPF_CORE_READ(t, cgroups, dfl_cgrp, kn, id);
}

#endif

/* Kill the current process, a condemned member. */
static inline void kill_current(struct entry *e)
{
	if (e->flags & FLAG_PROTECTED)
		return;
	set_flags(e, FLAG_KILLED);
	bpf_send_signal(SIGKILL);
}

#endif
