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

/* Take out of `dead` who is torn down and reaped, once, with the session that it counts in. */
static __always_inline bool collect(const struct identity *id, struct dead_entry *d, u64 *session)
{
	if (!swap(&d->mark, id->start << 1, 0))
		return false;
	*session = take_out(&d->session); /* which release() may be swapping */
	erase_dead(id);
	return true;
}

/*
 * Give an entry another session in place, if it is there and still has the one named. The
 * element may have become another process's, of the same session, before the swap: that
 * one is given back. If it died in between it was counted in the new session, as if it had
 * been meant.
 */
static __always_inline bool reassign(const struct identity *id, struct entry *e, u64 from, u64 to)
{
	if (!swap(&e->session, from, to))
		return false;
	return *(volatile u64 *)&e->start == id->start || !swap(&e->session, to, from);
}

#endif
#endif
