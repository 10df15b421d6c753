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
 * marks or deletes the entry, and then calls let_go().
 */
static inline bool seize(const struct identity *id, struct entry *e, u64 *session)
{
	if (!swap(&e->start, id->start, 0))
		return false;
	/* A move between sessions swaps this word too. */
	*session = __sync_fetch_and_or(&e->session, SESSION_DEAD);
	return true;
}

static inline void let_go(const struct identity *id)
{
}

/* Its memory, files and ports are gone: note it, once. */
static inline bool end_dying(const struct identity *id, struct entry *e)
{
	return swap(&e->start, ENTRY_DEAD | ENTRY_TEARING | id->start,
		    ENTRY_DEAD | id->start);
}

/*
 * Take a process that is torn down and reaped, once; get its session. The entry stays
 * until it is counted: a limit of processes asks whether one is being counted.
 */
static inline bool collect(const struct identity *id, struct entry *e,
			   u64 *session)
{
	if (!swap(&e->start, ENTRY_DEAD | id->start, ENTRY_DEAD))
		return false;
	/* release() may be swapping it. */
	*session = __sync_lock_test_and_set(&e->session, SESSION_DEAD) &
		   ~SESSION_DEAD;
	return true;
}

/*
 * Give an entry another session in place, if it is there and still in `from`. Before
 * the swap the element may have become another process's, in the same session: then the
 * swap is undone. If the process has died since, it is counted in the new session, and
 * there is no undo, because it may have forked there. But if the element became another's
 * after the swap, in the new session, the undo is wrong: nothing here can tell the two.
 */
static inline bool reassign(const struct identity *id, struct entry *e, u64 from,
			    u64 to)
{
	u64 start;

	if (!swap(&e->session, from, to))
		return false;
	start = READ_ONCE(e->start) & (ENTRY_TEARING - 1);
	if (!start || start == id->start)
		return true;
	return !swap(&e->session, to, from);
}

#endif
#endif
