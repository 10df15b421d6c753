/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Taking over from the kernel side of another version. Its hooks run beside
 * ours until all that it knows is here, so no birth is missed: from the moment
 * its processes stand in `elder` a fork of one of its members enters the
 * creator here, and the child with it; whoever was born before that is on the
 * task list when carry_all walks it. A fork that read `elder` before it was
 * set had entered its child there by then: both are full barriers.
 */
#ifndef LINEAGE_ELDER_H
#define LINEAGE_ELDER_H

#include "adopt.h"

/* Enter the process as it stands in the elder, if it is a member or an owner there. */
static __always_inline struct entry *carry(u32 tgid, u64 start)
{
	struct entry n = { .start = start };
	u32 zero = 0;
	void *members, *old;

	if (!elder_layout.present)
		return NULL;
	members = bpf_map_lookup_elem(&elder, &zero);
	if (!members)
		return NULL;
	old = bpf_map_lookup_elem(members, &tgid);
	if (!old || *(u64 *)(old + elder_layout.start) != start)
		return NULL;
	n.session = *(u64 *)(old + elder_layout.session);
	n.since = *(u64 *)(old + elder_layout.since);
	n.creator = *(struct identity *)(old + elder_layout.creator);
	n.flags = *(u32 *)(old + elder_layout.flags);
	n.evidence = *(u32 *)(old + elder_layout.evidence);
	/* The elder's daemon and its ancestors: ours protects its own. */
	if (!n.session && !(n.flags & FLAG_OWNER))
		return NULL;
	/* Counted first: its death may come right after the insert. */
	joined(n.session);
	if (insert(tgid, &n))
		left(n.session);
	return entry_of(tgid, start);
}

#endif
