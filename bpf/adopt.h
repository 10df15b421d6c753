/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Members not made by a fork: outsiders that are entered, and members that change their
 * session. An entry changes in place, by one swap of its session: an element that is
 * deleted and inserted again may be another process's memory in between. The new
 * session is counted up before the old one is counted down.
 */
#ifndef LINEAGE_ADOPT_H
#define LINEAGE_ADOPT_H

#include "death.h"
#include "file.h"

/* A process was entered, or moved: if the session is condemned or paused, a pass is due. */
__noinline int admitted(u64 session)
{
	if (demanded(session) & (CONDEMNED | PAUSED))
		arm(1);
	return 0;
}

/*
 * Give a process another session; 1 if it has it now, 0 if it is not in `from`, and -1 if another
 * program has its entry. `to` may be 0: then it is in no session.
 */
__noinline int move(u32 tgid, u64 start, u64 from, u64 to)
{
	struct identity id = { .start = start, .tgid = tgid };
	struct entry *e = entered(tgid, start);

	if (!e || e->session != from)
		return 0;
	count_apart(to, from, 1);
	if (!reassign(&id, e, from, to)) {
		count_apart(to, from, -1);
		arm(1); /* a pass in between took another process for a member of `to` */
		return e->start == start && e->session == from ? -1 : 0;
	}
	/* A SIGTERM for the session that it left does not count for the next one. */
	if (!chain_has(from, to) && !chain_has(to, from))
		clear_flags(e, FLAG_TERMED);
	count_apart(from, to, -1);
	if (e->flags & FLAG_STOPPED)
		arm(1);
	else
		admitted(to);
	return 1;
}

/* Enter a process other than by a fork. Counted first: its death may come right after. -errno. */
static inline long join(u32 tgid, const struct entry *n)
{
	long err;

	chain_count_cold(n->session, JOINED);
	err = place(tgid, n);
	if (err)
		chain_count_cold(n->session, LEFT);
	return err;
}

/*
 * The call of what a process made at a time that is not known: not an agent's, whose calls
 * change.
 */
static inline u32 call_of(const struct entry *e)
{
	return e && !(e->flags & FLAG_SPARED) ? e->creator.call : 0;
}

/*
 * Enter an outsider, or a member of `from` on better evidence. An owner stays one.
 * Returns 1, or 0 if it is dead, protected, a kernel thread, or not in `from` (0: in a
 * session), or if the session would kill it; -ENOSPC if there is no room for it.
 */
static inline int adopt(struct task_struct *leader, u64 from, u64 session,
			const struct identity *creator, u32 evidence)
{
	u32 tgid = leader->tgid;
	struct entry n = {
		.start = leader->start_boottime,
		.session = session,
		.since = bpf_ktime_get_boot_ns(),
		.creator = { .start = creator->start, .tgid = creator->tgid },
		.evidence = evidence,
	};
	struct entry *e = entered(tgid, n.start);
	int moved;
	long err;

	if (leader->flags & PF_KTHREAD || chain_demands(session) & CONDEMNED)
		return 0;
	if (e) {
		if (e->flags & FLAG_PROTECTED)
			return 0;
		moved = move(tgid, n.start, from, session);
		if (moved <= 0)
			return moved ? -ENOSPC : 0;
		if (e->start != n.start)
			return 0;
		e->evidence = evidence;
		n.creator.call = e->creator.call;
		e->creator = n.creator;
		e->since = n.since;
		n.flags = e->flags;
	} else if (from) {
		return 0;
	} else {
		find_exe(&n.exe, leader);
		n.creator.call = call_of(entered(creator->tgid, creator->start));
		err = join(tgid, &n);
		if (err) /* the fork hook may have been faster, or it is dead */
			return err == -EEXIST ? 0 : -ENOSPC;
		if (!leader->signal->live.counter) {
			forget(tgid, n.start, 0);
			return 0;
		}
	}
	emit_birth(leader, tgid, &n, cgroup_of(leader), n.since);
	admitted(session);
	return 1;
}

/* Is it not for the adopter to act for, by any of its uids? Read without types, see descends(). */
static inline bool foreign(struct task_struct *t)
{
	u32 only = READ_ONCE(control.adopting_uid);
	const struct cred *cred;

	if (!only--)
		return false;
	cred = BPF_CORE_READ(t, cred);
	return BPF_CORE_READ(cred, uid.val) != only ||
	       BPF_CORE_READ(cred, euid.val) != only ||
	       BPF_CORE_READ(cred, suid.val) != only ||
	       BPF_CORE_READ(cred, fsuid.val) != only;
}

/* Global, so that the verifier checks it once and not in each turn. */
__noinline bool foreign_at(u64 task)
{
	return foreign((void *)task);
}

#define ANCESTORS 32 /* that are checked for a member */

/*
 * Is an ancestor of the current process in the session, with none in between that is
 * foreign? Read without types, as the baseline's current_cgroup() does.
 */
__noinline bool descends(u64 session)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	for (int i = 0; i < ANCESTORS; i++) {
		struct entry *e;
		u32 above;

		if (foreign_at((u64)t))
			return false;
		t = BPF_CORE_READ(t, group_leader, real_parent, group_leader);
		above = BPF_CORE_READ(t, tgid);
		if (above <= 1)
			return false;
		e = entered(above, BPF_CORE_READ(t, start_boottime));
		if (e && e->session == session)
			return true;
	}
	return false;
}

/*
 * An outsider forks while the descendants of a running process are being entered. If
 * one of its ancestors is in the session already, the outsider belongs there, and so
 * does its child. The ancestors in between are found by the pass.
 */
static inline struct entry *adopt_creator(struct task_struct *leader)
{
	u64 session = READ_ONCE(control.adopting);
	u32 tgid = leader->tgid;
	struct identity parent;

	if (!session || !descends(session))
		return NULL;
	identify(&parent, leader->real_parent->group_leader);
	adopt(leader, 0, session, &parent,
	      EVIDENCE(EVIDENCE_ADOPTED, SOURCE_PARENT));
	return entered(tgid, leader->start_boottime);
}

#endif
