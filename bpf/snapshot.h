/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The snapshot: one record for each thread group, and for members one for each further
 * thread, as only the thread itself has its CPU time. Dying processes and zombies are
 * included: only the session is left of their entries.
 */
#ifndef LINEAGE_SNAPSHOT_H
#define LINEAGE_SNAPSHOT_H

#include "death.h"
#include "room.h"

static inline s64 rss_of(struct mm_struct *mm)
{
	/* MM_FILEPAGES, MM_ANONPAGES and MM_SHMEMPAGES; 2 is swap. */
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		struct mm_struct___v61 *old = (void *)mm;

		return BPF_CORE_READ(old, rss_stat.count[0].counter) +
		       BPF_CORE_READ(old, rss_stat.count[1].counter) +
		       BPF_CORE_READ(old, rss_stat.count[3].counter);
	}
	return mm->rss_stat[0].count + mm->rss_stat[1].count +
	       mm->rss_stat[3].count;
}

/* The session of a dead process, while that is on record; 0: none. */
static inline u64 session_of_dead(u32 tgid, u64 start)
{
	struct identity id = { .start = start, .tgid = tgid };
	struct entry *e = dead_at(&id);
	u64 session = e ? e->session & ~SESSION_DEAD : 0;

	return session_of(session) ? session : 0;
}

static inline int on_snapshot(struct seq_file *seq, struct task_struct *t)
{
	u64 start = t->group_leader->start_boottime, filter = control.filter,
	    session = 0;
	struct signal_struct *signal = t->signal;
	u32 tgid = t->tgid;
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);
	bool thread = t->pid != t->tgid;
	struct seen x = {};
	struct mm_struct *mm;

	if (e && e->start != start)
		e = NULL;
	if (e)
		session = e->session;
	else if (!signal->live.counter)
		session = session_of_dead(tgid, start);
	if ((filter || thread) && !session)
		return 0;
	if (filter && !chain_has(session, filter))
		return 0;
	x.process.tgid = tgid;
	x.process.start = start;
	x.cpu_time = t->se.sum_exec_runtime;
	if (thread) {
		x.seen_flags = SEEN_THREAD;
		bpf_seq_write(seq, &x, sizeof(x));
		return 0;
	}
	if (e)
		x.entry = *e;
	else if (session)
		x.entry = (struct entry){ .start = start, .session = session };
	identify(&x.parent, t->real_parent->group_leader);
	x.cgroup = cgroup_of(t);
	describe(&x.facts, t);
	x.cpu_time += signal->sum_sched_runtime;
	mm = t->mm;
	if (mm)
		x.rss = rss_of(mm);
	if (!(t->flags & PF_FORKNOEXEC))
		x.exec = t->self_exec_id;
	x.pgid = signal->pids[PIDTYPE_PGID]->numbers[0].nr;
	x.sid = signal->pids[PIDTYPE_SID]->numbers[0].nr;
	x.threads = signal->nr_threads;
	x.ns_pid = pid_in_own_namespace(t);
	if (!signal->live.counter)
		x.seen_flags |= SEEN_DEAD;
	if (is_gone(t))
		x.seen_flags |= SEEN_ZOMBIE;
	if (t->flags & PF_KTHREAD)
		x.seen_flags |= SEEN_KTHREAD;
	if (is_killed(signal))
		x.seen_flags |= SEEN_KILLED;
	if (signal->flags & SIGNAL_STOP_STOPPED)
		x.seen_flags |= SEEN_STOPPED;
	if (is_stopping(signal))
		x.seen_flags |= SEEN_STOPPING;
	bpf_seq_write(seq, &x, sizeof(x));
	return 0;
}

#endif
