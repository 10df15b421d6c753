/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Steps in the life of an entry that only one caller may take: the first. */
#ifndef LINEAGE_ARBITER_H
#define LINEAGE_ARBITER_H

#include "classes.h"

#ifdef BASELINE
#include "claims.h"
#else

/*
 * Take the entry for its burial, and read its session. Only one caller succeeds; it
 * deletes the entry, and then calls let_go().
 */
static __always_inline bool seize(const struct identity *id, struct entry *e, u64 *session)
{
	if (!swap(&e->start, id->start, 0))
		return false;
	/* A move between sessions swaps this word too. */
	*session = take_out(&e->session);
	return true;
}

static __always_inline void let_go(const struct identity *id)
{
}

/* Remember a dead process until it is reaped. At first it is being torn down. */
static __always_inline bool remember(const struct identity *id, u64 session)
{
	struct dead_entry d = { .mark = id->start << 1 | 1, .session = session };

	return !insert_dead(id, &d);
}

/* Its memory, files and ports are gone: note it, once. */
static __always_inline bool end_dying(const struct identity *id, struct dead_entry *d)
{
	return swap(&d->mark, id->start << 1 | 1, id->start << 1);
}

/*
 * Take a process that is torn down and reaped, once; get its session. It stays in `dead`
 * until it is counted: a limit of processes asks whether one is being counted.
 */
static __always_inline bool collect(const struct identity *id, struct dead_entry *d, u64 *session)
{
	if (!swap(&d->mark, id->start << 1, MARK_COUNTING))
		return false;
	*session = take_out(&d->session); /* release() may be swapping it */
	return true;
}

/* Nobody else erases it before. */
static __always_inline void collected(const struct identity *id, struct dead_entry *d)
{
	WRITE_ONCE(d->mark, 0);
	erase_dead(id);
}

/*
 * Give an entry another session in place, if it is there and still in `from`. Before
 * the swap the element may have become another process's, in the same session: then the
 * swap is undone. If the process has died since, it is counted in the new session, and
 * there is no undo, because it may have forked there. But if it was in no session, its
 * death may have been passed over already.
 */
static __always_inline bool reassign(const struct identity *id, struct entry *e, u64 from, u64 to)
{
	u64 start;

	if (!swap(&e->session, from, to))
		return false;
	start = READ_ONCE(e->start);
	if (start == id->start || (!start && from))
		return true;
	return !swap(&e->session, to, from);
}

#endif
#endif
