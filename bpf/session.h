/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sessions: states, counters, and the chain from a session to those that it is nested
 * in. Counters move on the whole chain. States are read on the whole chain when they
 * are needed, and never copied down.
 */
#ifndef LINEAGE_SESSION_H
#define LINEAGE_SESSION_H

#include "event.h"
#include "maps.h"

#define STATE(status) ((status) & 0xff)
#define CAUSE(status) (((status) >> 8) & 0xff)
#define STATUS(state, cause) ((state) | (cause) << 8)

static inline struct session *session_of(u64 id)
{
	u32 slot = (u32)id;
	struct session *s = bpf_map_lookup_elem(&sessions, &slot);

	return s && id && s->id == id ? s : NULL;
}

static inline struct ctl *ctl_of(u64 id)
{
	u32 slot = (u32)id;
	struct ctl *c = bpf_map_lookup_elem(&session_ctl, &slot);

	return c && id && c->id == id ? c : NULL;
}

/*
 * The session and those that it is nested in, the innermost first, while their records are
 * there. Functions with such a loop are global: the verifier checks them once for each program,
 * and not at each call with every state that can precede it.
 */
#define for_each_around(id, s, c)                                       \
	for (int i = 0;                                                 \
	     i < MAX_DEPTH && (s = session_of(id)) && (c = ctl_of(id)); \
	     i++, id = s->parent)

/* The same without the decisions about them. */
#define for_each_counted(id, s) \
	for (int i = 0; i < MAX_DEPTH && (s = session_of(id)); i++, id = s->parent)

/* Its root and agents are spared, from now on. */
static inline void note_spares(const struct ctl *c)
{
	if (c->flags & SESSION_SPARES)
		WRITE_ONCE(control.spares, 1);
}

static inline bool is_root(u64 id, u32 tgid, u64 start)
{
	struct session *s = session_of(id);

	return s && s->root.tgid == tgid && s->root.start == start;
}

/* In these states its members are killed. An empty session has none, unless a birth was missed. */
#define KILLS (1 << STATE_CONDEMNED | 1 << STATE_EMPTY)

static inline bool kills(u32 state)
{
	return 1 << state & KILLS;
}

/* Bring *when forward to t; 0 is "never". False: other CPUs changed it at each try. */
static inline bool earliest(u64 *when, u64 t)
{
	for (int i = 0; i < 16; i++) {
		u64 old = READ_ONCE(*when);

		if (old && old <= t)
			return true;
		if (swap(when, old, t))
			return true;
	}
	return false;
}

/* How long hooks leave a pass to the daemon. */
#define HANDOVER_NS 100000000

/* Make a pass due at this time in CLOCK_MONOTONIC ns; 1: now. */
__noinline int arm(u64 when)
{
	/* Too early costs only a useless pass. */
	if (!earliest(&control.due, when))
		WRITE_ONCE(control.due, 1);
	return 0;
}

/* The same in boottime. */
__noinline int arm_boot(u64 when)
{
	if (!earliest(&control.due_boot, when))
		WRITE_ONCE(control.due_boot, 1);
	return 0;
}

/* What a step in a process's life adds to the counts of its sessions. */
struct change {
	int forks, held, live, dying;
};

#define BORN ((struct change){ .forks = 1, .held = 1, .live = 1 })
#define JOINED                       \
	((struct change){ .held = 1, \
			  .live = 1 }) /* entered other than by a fork */
#define LEFT                          \
	((struct change){ .held = -1, \
			  .live = -1 }) /* or died and was not remembered */
#define DIED ((struct change){ .live = -1, .dying = 1 })
#define FOUND_DEAD \
	((struct change){ .held = 1, .dying = 1 }) /* was never live here */
#define TORN_DOWN ((struct change){ .dying = -1 })
#define REAPED ((struct change){ .held = -1 })

static inline void add(s64 *to, int n)
{
	if (!__builtin_constant_p(n) || n)
		__sync_fetch_and_add(to, n);
}

static inline void session_count(struct session *s, struct change by)
{
	s64 live;

	add((s64 *)&s->forks, by.forks);
	add(&s->held, by.held);
	/* Before live, so that the two are never both 0 in between. */
	add(&s->dying, by.dying);
	if (__builtin_constant_p(by.live) && !by.live)
		return;
	/* With a result it is a full barrier: the state is read after it. */
	live = fetch_add(&s->live, by.live) + by.live;
	if (by.live > 0 && live > (s64)s->peak)
		s->peak = live;
	if (by.live < 0 && !live)
		s->emptied = bpf_ktime_get_boot_ns();
}

/* Count on the whole chain. */
__noinline int count_chain(u64 id, int forks, int held, int live, int dying)
{
	struct session *s;

	for_each_counted(id, s)
		session_count(s, (struct change){ forks, held, live, dying });
	return 0;
}

/* For rare paths. */
static inline void chain_count_cold(u64 id, struct change by)
{
	count_chain(id, by.forks, by.held, by.live, by.dying);
}

/* For hooks: most sessions are not nested, and need no call. */
static inline void chain_count(u64 id, struct change by)
{
	struct session *s = session_of(id);

	if (!s)
		return;
	session_count(s, by);
	if (s->parent)
		chain_count_cold(s->parent, by);
}

__noinline bool chain_has(u64 id, u64 wanted)
{
	struct session *s;

	for_each_counted(id, s)
		if (id == wanted)
			return true;
	return false;
}

/*
 * Count one member more or less in the session and those around it, but not in those
 * that are around `other`, too: a move between the two changes nothing there, and a
 * session that has as many processes as it may have must not end for it.
 */
__noinline int count_apart(u64 id, u64 other, int by)
{
	struct session *s;

	for_each_counted(id, s) {
		if (chain_has(other, id))
			break;
		session_count(s, (struct change){ .held = by, .live = by });
	}
	return 0;
}

/* What the session demands of its members, as bits: to die, to stop, to report moves. */
#define CONDEMNED 1
#define PAUSED 2
#define IN_CGROUP 4

__noinline u32 chain_demands(u64 id)
{
	u64 states = 0, paused = 0;
	u32 flags = 0;
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c) {
		states |= 1 << STATE(READ_ONCE(c->status));
		paused |= READ_ONCE(c->paused);
		flags |= c->flags;
	}
	return (states & KILLS ? CONDEMNED : 0) | (paused ? PAUSED : 0) |
	       (flags & SESSION_CGROUP ? IN_CGROUP : 0);
}

/* Is the session, or one that it is nested in, condemned or paused? Most are not nested. */
static inline u32 demanded(u64 id)
{
	struct session *s = session_of(id);
	struct ctl *c = ctl_of(id);

	if (!s || !c)
		return 0;
	if (s->parent)
		return chain_demands(id);
	return (kills(STATE(READ_ONCE(c->status))) ? CONDEMNED : 0) |
	       (READ_ONCE(c->paused) ? PAUSED : 0) |
	       (c->flags & SESSION_CGROUP ? IN_CGROUP : 0);
}

static inline bool condemned(u64 id)
{
	return demanded(id) & CONDEMNED;
}

/* Has the end of the session begun, or of one that it is nested in? */
__noinline bool chain_ends(u64 id)
{
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c) {
		u32 state = STATE(READ_ONCE(c->status));

		if (state != STATE_ACTIVE && state != STATE_DISSOLVED)
			return true;
	}
	return false;
}

/* The session itself, or the nearest around it that is not dissolved; 0: none. */
__noinline u64 home_of(u64 id)
{
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c)
		if (STATE(READ_ONCE(c->status)) != STATE_DISSOLVED)
			return id;
	return 0;
}

/*
 * The session that a child born then had its creator's place in: the creator may have opened one
 * since, and of what ran already only the members that were kept follow into a new one. 0: none.
 */
__noinline u64 session_at(u64 id, u64 born)
{
	struct session *s;
	struct ctl *c;

	for_each_around(id, s, c)
		if (s->created < born || c->flags & SESSION_KEPT)
			return id;
	return 0;
}

/* A deadline can only be shortened; 0 is none yet. */
static inline void shorten(struct ctl *c, u64 deadline)
{
	earliest(&c->deadline, deadline);
}

/* A slot for a new session. False: there is none. */
static inline bool take_slot(u32 *slot)
{
	if (bpf_map_pop_elem(&free_slots, slot))
		return false;
	__sync_fetch_and_add(&control.taken, 1);
	return true;
}

static inline void give_back(u32 slot)
{
	__sync_fetch_and_add(&control.taken, -1);
	bpf_map_push_elem(&free_slots, &slot, BPF_ANY);
}

/*
 * Start the end of an active session. Only the winner of the swap sets the rest; a pass
 * in between sees a deadline of 0 and leaves it alone. The caller makes a pass, or
 * makes one due. A paused session has no grace: its members would not run in it.
 */
__noinline bool begin_end(u64 id, u32 cause, u64 grace)
{
	struct ctl *c = ctl_of(id);
	u32 state, old;

	if (!c)
		return false;
	if (chain_demands(id) & PAUSED)
		grace = 0;
	state = grace ? STATE_ENDING : STATE_CONDEMNED;
	old = READ_ONCE(c->status);
	if (STATE(old) != STATE_ACTIVE)
		return false;
	if (!swap(&c->status, old, STATUS(state, cause)))
		return false;
	c->ended_at = bpf_ktime_get_boot_ns();
	if (grace)
		shorten(c, bpf_ktime_get_ns() + grace);
	emit_session(id, state, cause);
	return true;
}

__noinline bool condemn(u64 id)
{
	struct ctl *c = ctl_of(id);
	u32 old;

	if (!c)
		return false;
	old = READ_ONCE(c->status);
	if (STATE(old) != STATE_ENDING)
		return false;
	if (!swap(&c->status, old, STATUS(STATE_CONDEMNED, CAUSE(old))))
		return false;
	emit_session(id, STATE_CONDEMNED, CAUSE(old));
	return true;
}

#endif
