/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A condemned member makes no more processes. This helps, but proves nothing:
 * security_task_alloc comes before the PID exists and before a fork may fail, a
 * fmod_ret program may be skipped, and a fork that passed here before the sentence is
 * still on its way. So only refusals are counted here. A member that is refused is also
 * killed: it may retry forever as the only process that runs, and no hook would end the
 * other members.
 */
#ifndef LINEAGE_REFUSE_H
#define LINEAGE_REFUSE_H

#include "current.h"
#ifdef BASELINE
#include "session.h"
#else
#include "sentence.h"
#endif

#define CLONE_THREAD 0x00010000

/* The entry of a process, if it is a member. For any context. */
static inline struct entry *member_at(u32 tgid, u64 start)
{
	struct entry *e = entered(tgid, start);

	return e && READ_ONCE(e->session) ? e : NULL;
}

/* Threads pass: a Go program crashes if one is refused, and does not say why. */
static inline int refuse_fork(u64 clone_flags)
{
	struct entry *e;

	if (clone_flags & CLONE_THREAD)
		return 0;
	e = member_at(current_tgid(), current_start());
	if (!e || !condemned(e->session))
		return 0;
	count(COUNT_FORK_REFUSED);
	kill_current(e);
#ifndef BASELINE
	/* The fork whose hook would have carried out the rest does not happen. */
	arm(1);
	carry_out();
#endif
	return -EPERM;
}

#endif
