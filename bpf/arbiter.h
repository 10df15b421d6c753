/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Steps in the life of an entry that only one may take, whoever comes first. */
#ifndef LINEAGE_ARBITER_H
#define LINEAGE_ARBITER_H

#include "classes.h"

#ifdef BASELINE
#include "claims.h"
#else

/*
 * Take the entry for its burial, which only one can, with the session that it
 * is in. The caller deletes it, and then lets go.
 */
static __always_inline bool seize(const struct identity *id, struct entry *e, u64 *session)
{
	if (!swap(&e->start, id->start, 0))
		return false;
	/* Whoever moves a process between sessions swaps this word too. */
	*session = take_out(&e->session);
	return true;
}

static __always_inline void let_go(const struct identity *id)
{
}

/* Remember who died until it is reaped; it is being torn down. */
static __always_inline bool remember(const struct identity *id, u64 session)
{
	struct dead_entry d = { .mark = id->start << 1 | 1, .session = session };

	return !insert_dead(id, &d);
}

/* End that, once. */
static __always_inline bool end_dying(const struct identity *id, struct dead_entry *d)
{
	return swap(&d->mark, id->start << 1 | 1, id->start << 1);
}

/* Give an entry another session in place, if it is there and still has the one named. */
static __always_inline bool reassign(const struct identity *id, struct entry *e, u64 from, u64 to)
{
	return swap(&e->session, from, to);
}

#endif
#endif
