/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sessions: states, counters, and the chain from a session to those that it
 * is nested in. Counters move on the whole chain; states are read at use on
 * the whole chain and never copied down.
 */
#ifndef LINEAGE_SESSION_H
#define LINEAGE_SESSION_H

#include "event.h"
#include "maps.h"

#define STATE(status) ((status) & 0xff)
#define CAUSE(status) (((status) >> 8) & 0xff)
#define STATUS(state, cause) ((state) | (cause) << 8)

static __always_inline struct session *session_of(u64 id)
{
	u32 slot = (u32)id;
	struct session *s = bpf_map_lookup_elem(&sessions, &slot);

	return s && id && s->id == id ? s : NULL;
}

static __always_inline struct ctl *ctl_of(u64 id)
{
	u32 slot = (u32)id;
	struct ctl *c = bpf_map_lookup_elem(&session_ctl, &slot);

	return c && id && c->id == id ? c : NULL;
}

/* Members of such a session are killed. An empty one has none, unless a birth was missed. */
static __always_inline bool kills(u32 state)
{
	return state == STATE_CONDEMNED || state == STATE_EMPTY;
}

/* Bring *when forward to t; 0 there is "never". False: others were in the way too often. */
static __always_inline bool earliest(u64 *when, u64 t)
{
	for (int i = 0; i < 16; i++) {
		u64 old = *(volatile u64 *)when;

		if (old && old <= t)
			return true;
		if (swap(when, old, t))
			return true;
	}
	return false;
}

static __always_inline void arm_at(u64 *due, u64 t)
{
	if (!earliest(due, t))
		*(volatile u64 *)due = 1; /* too early is a pass for nothing */
}

static __always_inline void arm(u64 when)
{
	arm_at(&control.due, when);
}

enum change {
	BORN,
	DIED, /* live to dying and unreaped */
	DIED_FORGOTTEN, /* could not be remembered: live only */
	TORN_DOWN, /* no longer dying */
	REAPED,
	JOINED, /* came otherwise than by a fork: live */
	LEFT, /* moved out */
	FOUND_DEAD, /* dying and unreaped, and was never live here */
};

static __always_inline void session_count(struct session *s, enum change what)
{
	s64 live;

	switch (what) {
	case BORN:
		__sync_fetch_and_add(&s->forks, 1);
		/* fall through */
	case JOINED:
		/* With a result: a full barrier, the state is read after it. */
		live = fetch_add(&s->live, 1) + 1;
		if (live > (s64)s->peak)
			s->peak = live;
		break;
	case FOUND_DEAD:
		__sync_fetch_and_add(&s->dying, 1);
		__sync_fetch_and_add(&s->unreaped, 1);
		break;
	case DIED:
		/* Into dying first: both are never 0 in between. */
		__sync_fetch_and_add(&s->dying, 1);
		__sync_fetch_and_add(&s->unreaped, 1);
		/* fall through */
	case DIED_FORGOTTEN:
		__sync_fetch_and_add(&s->live, -1);
		if (!*(volatile s64 *)&s->live)
			s->emptied = bpf_ktime_get_boot_ns();
		break;
	case LEFT:
		__sync_fetch_and_add(&s->live, -1);
		break;
	case TORN_DOWN:
		__sync_fetch_and_add(&s->dying, -1);
		break;
	case REAPED:
		__sync_fetch_and_add(&s->unreaped, -1);
		break;
	}
}

static __always_inline void chain_count(u64 id, enum change what)
{
	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);

		if (!s)
			return;
		session_count(s, what);
		id = s->parent;
	}
}

static __always_inline bool chain_has(u64 id, u64 wanted)
{
	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s;

		if (id == wanted)
			return true;
		s = session_of(id);
		if (!s)
			return false;
		id = s->parent;
	}
	return false;
}

/* Is the session, or one that it is nested in, condemned? */
static __always_inline bool condemned(u64 id)
{
	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);
		struct ctl *c = ctl_of(id);

		if (!s || !c)
			return false;
		if (kills(STATE(*(volatile u32 *)&c->status)))
			return true;
		id = s->parent;
	}
	return false;
}

/* The session, or the innermost around it that was not dissolved; 0: none. */
static __always_inline u64 home_of(u64 id)
{
	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);
		struct ctl *c = ctl_of(id);

		if (!s || !c)
			return 0;
		if (STATE(*(volatile u32 *)&c->status) != STATE_DISSOLVED)
			return id;
		id = s->parent;
	}
	return 0;
}

/* A deadline only ever comes nearer; 0 is none yet. */
static __always_inline void shorten(struct ctl *c, u64 deadline)
{
	earliest(&c->deadline, deadline);
}

/*
 * Start the end of a session that is active. Only the winner of the swap sets
 * the rest; a pass that comes in between sees a deadline of 0 and leaves it
 * alone. The caller makes a pass, or makes one due.
 */
static __always_inline bool begin_end(struct ctl *c, u32 cause, u64 grace)
{
	u32 old = *(volatile u32 *)&c->status;
	u32 state = grace ? STATE_ENDING : STATE_CONDEMNED;

	if (STATE(old) != STATE_ACTIVE)
		return false;
	if (!swap(&c->status, old, STATUS(state, cause)))
		return false;
	c->ended_at = bpf_ktime_get_boot_ns();
	if (grace)
		shorten(c, bpf_ktime_get_ns() + grace);
	emit_session(c->id, state, cause);
	return true;
}

static __always_inline bool condemn(struct ctl *c)
{
	u32 old = *(volatile u32 *)&c->status;
	u32 cause = CAUSE(old);

	if (STATE(old) != STATE_ENDING)
		return false;
	if (!swap(&c->status, old, STATUS(STATE_CONDEMNED, cause)))
		return false;
	emit_session(c->id, STATE_CONDEMNED, cause);
	return true;
}

#endif
