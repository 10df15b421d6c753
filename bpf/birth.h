/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Birth: a member's child is entered before it runs. There are two writers: the
 * tracepoint and, where trampolines load, fentry/attach_pid under tasklist_lock, which
 * no recursion guard can skip. The insert decides which of them counts.
 */
#ifndef LINEAGE_BIRTH_H
#define LINEAGE_BIRTH_H

#include "elder.h"
#include "moved.h"
#include "pause.h"

/* The creator's entry. One that it should have, but does not have yet, is made. */
static inline struct entry *creator_entry(struct task_struct *creator)
{
	struct task_struct *leader = creator->group_leader;
	u32 tgid = creator->tgid;
	u64 start = leader->start_boottime;
	struct entry *e = entered(tgid, start), *made;

	if (e && e->session)
		return e;
	made = e ? NULL : carry(leader, tgid, start);
	if (!made)
		made = adopt_creator(plain(leader));
	return made ? made : e;
}

/*
 * Enter the child of a member, and get its session; -errno if it could not be entered.
 * The writer that enters it also reports it: the other one may have been skipped. If the
 * place of an earlier process is taken, another program is about to delete that entry.
 */
static inline long enter_child(struct entry *creator, u32 creator_tgid,
			       struct task_struct *child, u64 cgroup, u64 *session)
{
	u32 tgid = child->tgid;
	struct entry n = {
		.start = child->start_boottime,
		.session = creator->session,
		.since = bpf_ktime_get_boot_ns(),
		.evidence = EVIDENCE_FORK,
		.exe = creator->exe,
	};
	struct entry *e;
	u64 now;
	long err;

	n.creator.start = creator->start;
	n.creator.tgid = creator_tgid;
	n.creator.call = creator->creator.call;
	err = insert(tgid, &n);
	if (err) {
		e = entered(tgid, n.start);
		if (e) {
			/* The other writer was first, and counted. */
			*session = e->session;
			return 0;
		}
		err = place(tgid, &n);
	}
	if (err) {
		count(COUNT_ENTER_FAILED);
		return err;
	}
	chain_count(n.session, BORN);
	/* Its creator may have been moved meanwhile: then it follows. */
	now = READ_ONCE(creator->session);
	if (now != n.session && move(tgid, n.start, n.session, now) > 0)
		n.session = now;
	emit_birth(child, tgid, &n, cgroup, n.since);
	*session = n.session;
	return 0;
}

static inline bool above_limit(struct session *s, s64 limit)
{
	if (s->live > limit)
		return true;
	return s->held > limit && recount() && READ_ONCE(s->held) > limit;
}

#ifdef BASELINE
/*
 * Here only verbs change states and look for reaped processes. So user space gets an
 * event: the session is active, with this cause. It then makes a pass.
 */
static inline void ask_for_pass(struct ctl *c)
{
	u64 now = bpf_ktime_get_ns();

	if (STATE(READ_ONCE(c->status)) != STATE_ACTIVE ||
	    now < READ_ONCE(control.recount))
		return;
	WRITE_ONCE(control.recount, now + RECOUNT_NS);
	emit_session(c->id, STATE_ACTIVE, CAUSE_MAX_PROCESSES);
}
#endif

/* If a newborn takes a session over its limit, the session's end begins and it is killed. */
static inline bool over_limit(u64 id)
{
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c) {
		if (c->max_processes && above_limit(s, c->max_processes)) {
#ifdef BASELINE
			WRITE_ONCE(c->over, 1);
			ask_for_pass(c);
#else
			if (begin_end(id, CAUSE_MAX_PROCESSES, c->grace))
				arm(1);
#endif
			return true;
		}
#ifdef BASELINE
		if (c->max_processes && s->held > c->max_processes)
			ask_for_pass(c);
#endif
	}
	return false;
}

/* A child of a member of the session runs without an entry: no verdict may say clean. */
__noinline int note_unentered(u64 id)
{
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c)
		__sync_fetch_and_add(&c->unentered, 1);
	return 0;
}

/*
 * A member's child that is doomed, or that could not be entered, must not run. Below
 * level 3 it cannot be signalled from here. A doomed child's creator, which runs this,
 * is killed instead, and forks no more; the child dies when it next enters the kernel
 * or a pass meets it. If the child was not entered its creator lives: user space finds
 * the child by it, and nothing else leads to the child.
 */
static inline void kill_newborn(struct entry *creator, struct task_struct *child)
{
	struct entry *e = entered(child->tgid, child->start_boottime);

#ifndef BASELINE
	if (config.can_signal && bpf_send_signal_task) {
		if (e)
			/* Before the send: the hook on signals asks. */
			set_flags(e, FLAG_KILLED);
		if (!bpf_send_signal_task(child, SIGKILL, PIDTYPE_TGID, 0)) {
			count(COUNT_NEWBORN_KILLED);
			return;
		}
		if (e)
			clear_flags(e, FLAG_KILLED);
	}
#endif
	count(COUNT_NEWBORN_UNKILLED);
	arm(1);
	if (!e) {
		note_unentered(READ_ONCE(creator->session));
		return;
	}
	set_flags(e, FLAG_UNKILLED);
	if (!config.can_signal) {
		set_flags(creator, FLAG_KILLED);
		bpf_send_signal(SIGKILL);
	}
}

static inline void on_fork(struct task_struct *creator, struct task_struct *child)
{
	u32 tgid = creator->tgid;
	struct entry *c;
	u32 demand = CONDEMNED; /* without an entry */
	u64 session, cgroup;
	long err;

	if (child->pid != child->tgid)
		return;
	c = creator_entry(creator);
	if (!c || !c->session)
		return;
	if (config.second_writers) {
		u32 child_tgid = child->tgid;

		if (!bpf_map_lookup_elem(&processes, &child_tgid))
			count(COUNT_MISSED_BIRTH);
	}
	cgroup = cgroup_of(child);
	err = enter_child(c, tgid, child, cgroup, &session);
	if (err == -EEXIST && !condemned(READ_ONCE(c->session))) {
		/* The daemon enters it. */
		note_unentered(READ_ONCE(c->session));
		return;
	}
	/*
	 * Asked after the insert and the count, both full barriers. A sentence that missed the
	 * child, because it was not entered yet, had set its state before, so it is seen here.
	 */
	if (!err)
		demand = demanded(session);
	if (demand & CONDEMNED || over_limit(session))
		kill_newborn(c, child);
	else if (demand & PAUSED)
		stop_newborn(c, child);
	if (demand & IN_CGROUP &&
	    cgroup != current_cgroup()) /* CLONE_INTO_CGROUP */
		report_moved(child->tgid, child->start_boottime, session, cgroup,
			     0);
}

#endif
