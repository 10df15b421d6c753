/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A process in its PID namespace. */
#ifndef LINEAGE_ROOM_H
#define LINEAGE_ROOM_H

#include "current.h"

static inline u32 pid_in_own_namespace(struct task_struct *t)
{
	u32 level, nr = 0;
	u64 pid =
		0; /* a number: older verifiers add no unknown value to a typed pointer */

	bpf_probe_read_kernel(&pid, sizeof(pid), &t->thread_pid);
	if (!pid)
		return 0;
	level = BPF_CORE_READ((struct pid *)pid, level);
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      (void *)pid +
				      bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return nr;
}

/*
 * Was the process put into a PID namespace from outside, as runc exec does, or does a
 * container begin with it, and is that looked for? What a process in there forks has its
 * creator or PID 1 as parent, both in the same namespace, and the process with which a
 * container begins is PID 1.
 */
static inline bool put_in(struct task_struct *t, u32 looks)
{
	if (!(looks & (LOOK_JOINS | LOOK_MAINS)) ||
	    t->thread_pid->level <= t->real_parent->thread_pid->level)
		return false;
	return looks & (pid_in_own_namespace(t) == 1 ? LOOK_MAINS : LOOK_JOINS);
}

#endif
