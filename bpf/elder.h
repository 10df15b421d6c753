/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Taking over from the kernel side of another version, the elder. Its hooks run beside
 * ours until all that it knows is here, so no birth is missed. Once its processes are
 * in `elder`, a fork of one of its members enters the creator here, and the child with
 * it. A process born before that is on the task list when verb_carry walks it. A fork
 * that read `elder` before it was set had entered its child in the elder by then: both
 * are full barriers. Meanwhile the elder opens sessions for agents. So it is told to
 * stop, its sessions are read once more, and walks carry their members over, until a
 * walk finds none.
 */
#ifndef LINEAGE_ELDER_H
#define LINEAGE_ELDER_H

#include "adopt.h"

/* The elder's entry of the process. */
static inline void *elder_entry(u32 tgid, u64 start)
{
	u32 zero = 0;
	void *members, *old;

	if (!elder_layout.present)
		return NULL;
	members = bpf_map_lookup_elem(&elder, &zero);
	if (!members)
		return NULL;
	old = bpf_map_lookup_elem(members, &tgid);
	return old && *(u64 *)(old + elder_layout.start) == start ? old : NULL;
}

/*
 * Enter the process as the elder has it, if it is a member or an owner there. Not yet
 * if its session was opened there after the sessions were read: they are read again.
 */
static inline struct entry *carry(struct task_struct *leader, u32 tgid, u64 start)
{
	struct entry n = { .start = start };
	void *old = elder_entry(tgid, start);

	if (!old)
		return NULL;
	n.session = *(u64 *)(old + elder_layout.session);
	n.since = *(u64 *)(old + elder_layout.since);
	n.creator = *(struct origin *)(old + elder_layout.creator);
	n.flags = *(u32 *)(old + elder_layout.flags);
	n.evidence = *(u32 *)(old + elder_layout.evidence);
	if (elder_layout.knows_exe)
		n.exe = *(struct file_id *)(old + elder_layout.exe);
	else
		find_exe(&n.exe, leader);
	/* Protected only, for the elder's daemon: our daemon protects its own. */
	if (n.session ? !session_of(n.session) : !(n.flags & FLAG_OWNER))
		return NULL;
	join(tgid, &n);
	return entered(tgid, start);
}

/* Move a process that was carried before an exec in the elder opened a session for it. */
static inline bool carry_again(u32 tgid, u64 start, struct entry *e)
{
	void *old = elder_entry(tgid, start);
	u64 from = e->session, to;

	if (!old)
		return false;
	to = *(u64 *)(old + elder_layout.session);
	if (to == from || !session_of(to) || move(tgid, start, from, to) <= 0)
		return false;
	set_flags(e, *(u32 *)(old + elder_layout.flags));
	return true;
}

#endif
