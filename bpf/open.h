/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Opening a session: for a process that a request names, or for one that has just
 * become a program that a rule names.
 */
#ifndef LINEAGE_OPEN_H
#define LINEAGE_OPEN_H

#include "adopt.h"
#include "room.h"

/*
 * Enter a living process outside a fork, or add flags to its entry. It may be exiting
 * right now: the exit hook sees the entry, or this sees the exit; that one counts it.
 */
static inline long enter(struct task_struct *t, u32 flags)
{
	u32 tgid = t->tgid;
	struct entry n = {
		.start = t->start_boottime,
		.since = bpf_ktime_get_boot_ns(),
		.flags = flags,
	};
	struct entry *e = entered(tgid, n.start);

	if (e) {
		set_flags(e, flags);
	} else {
		find_exe(&n.exe, t);
		if (place(tgid, &n))
			return -ESRCH;
	}
	if (t->signal->live.counter)
		return 0;
	forget(tgid, n.start, 0);
	arm(1); /* a pass in between took it for a root that lives */
	return -ESRCH;
}

static inline u32 depth_of(u64 id)
{
	struct session *s;
	u32 depth = 0;

	for_each_counted(id, s)
		depth++;
	return depth;
}

/* Make the process the root of the session. If it is a member, it leaves its session. */
static inline long enter_root(struct task_struct *t, struct session *s, u64 id,
			      u32 evidence)
{
	struct identity self = { .start = t->start_boottime, .tgid = t->tgid };
	u32 tgid = t->tgid;
	struct entry *e = entered(tgid, t->start_boottime);
	struct entry n = {
		.start = t->start_boottime,
		.session = id,
		.since = bpf_ktime_get_boot_ns(),
		.flags = FLAG_ROOT,
		.evidence = EVIDENCE(EVIDENCE_ROOT, evidence),
	};
	u64 parent = s->parent;

	n.creator.start = t->real_parent->group_leader->start_boottime;
	n.creator.tgid = t->real_parent->group_leader->tgid;
	if (e) {
		if (e->flags & FLAG_PROTECTED)
			return -EPERM;
		/* In place, and only if it was not moved or buried meanwhile. */
		if (!reassign(&self, e, parent, id))
			return -ESRCH;
		set_flags(e, FLAG_ROOT);
		if (parent) {
			n.creator = e->creator;
			session_count(s, JOINED);
		} else {
			chain_count_cold(id, JOINED);
		}
	} else {
		find_exe(&n.exe, t);
		if (join(tgid, &n))
			return -ESRCH;
		/* It may have forked in between: then the session stands, and ends. */
		if (!t->signal->live.counter && forget(tgid, n.start, 0) &&
		    !READ_ONCE(s->forks))
			return -ESRCH;
	}
	emit_birth(t, tgid, &n, cgroup_of(t), n.since);
	return 0;
}

/*
 * Make a member the root of a session that is not nested: the end of its previous
 * session does not affect it any more.
 */
static inline long hand_over(struct task_struct *t, u64 id, u64 from)
{
	u32 tgid = t->tgid;
	struct entry *e = entered(tgid, t->start_boottime);
	struct entry n;

	if (!e || !session_of(from) || e->flags & FLAG_PROTECTED)
		return -EPERM;
	if (is_root(from, tgid, t->start_boottime))
		return -EBUSY;
	if (move(tgid, t->start_boottime, from, id) <= 0)
		return -ESRCH;
	set_flags(e, FLAG_ROOT);
	n = *e;
	emit_birth(t, tgid, &n, cgroup_of(t), bpf_ktime_get_boot_ns());
	return 0;
}

static inline void unnest(u64 parent)
{
	struct ctl *c = ctl_of(parent);

	if (c)
		__sync_fetch_and_add(&c->nested, -1);
}

/*
 * A session is about to be nested in `parent`: count it. False: the record of `parent`
 * is being released, which takes the state away before it reads the count.
 */
static inline bool nest(u64 parent)
{
	struct ctl *c = ctl_of(parent);

	if (!c)
		return false;
	fetch_add(&c->nested, 1);
	if (STATE(READ_ONCE(c->status)) != STATE_FREE)
		return true;
	unnest(parent);
	return false;
}

/* kept: instead of a->flags, for the verifier. */
static inline long create_in(struct verb_args *a, struct task_struct *root,
			     u32 slot, bool kept)
{
	u64 id = slot | ((a->random & 0x3fffffff) ?: 1) << 32;
	struct session *s = bpf_map_lookup_elem(&sessions, &slot);
	struct ctl *c = bpf_map_lookup_elem(&session_ctl, &slot);
	struct entry *e = entered(root->tgid, root->start_boottime);
	u64 parent = e && !kept ? e->session : 0;
	long err;

	if (!s || !c)
		return -EINVAL;
	/* The exec and user space may both open an agent's session: only one succeeds. */
	if (a->flags & SESSION_AGENT && parent != a->from)
		return -ESRCH;
	if (depth_of(parent) >= MAX_DEPTH) {
		count(COUNT_DEPTH);
		return -ELOOP;
	}
	s->parent = parent;
	identify(&s->root, root);
	s->owner = a->owner;
	s->created = bpf_ktime_get_boot_ns();
	s->live = s->dying = s->held = 0;
	s->forks = s->peak = s->emptied = s->left = 0;
	s->listen_window = s->listens = 0;
	c->flags = a->flags;
	c->grace = a->grace;
	c->deadline = c->ended_at = c->paused = c->halt = 0;
	c->expires = a->max_lifetime ? s->created + a->max_lifetime : 0;
	c->max_processes = a->max_processes;
	c->max_rss = a->max_rss;
	c->idle = a->idle;
	c->uid = a->uid;
	__builtin_memcpy(c->name, a->name, sizeof(c->name));
	WRITE_ONCE(c->status, STATUS(STATE_ACTIVE, CAUSE_NONE));
	c->id = id;
	s->id = id;
	c->rule = a->rule;
	c->over = c->nested = c->unentered = 0;
	note_spares(c);
	if (parent && !nest(parent)) {
		s->id = 0;
		c->id = 0;
		return -ESRCH;
	}
	err = kept ? hand_over(root, id, a->from) :
		     enter_root(root, s, id, a->evidence);
	if (err) {
		unnest(parent);
		s->id = 0;
		c->id = 0;
		return err;
	}
	if (c->expires)
		arm_boot(c->expires);
	/* One that died before now may not have made a pass due. */
	if (!alive(&s->root) || (s->owner.tgid && !alive(&s->owner)))
		arm(1);
	a->session = id;
	emit_session(id, STATE_ACTIVE, CAUSE_NONE);
	return 0;
}

/* Count one more session of this uid, if it may have one: root always may. */
static inline bool admit(u32 uid)
{
	s64 zero = 0, *n;

	if (!uid)
		return true;
	n = bpf_map_lookup_elem(&agent_uids, &uid);
	if (!n) {
		bpf_map_update_elem(&agent_uids, &uid, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&agent_uids, &uid);
		if (!n)
			return true; /* evicted already: more uids than the map holds */
	}
	if (fetch_add(n, 1) < AGENTS_PER_UID)
		return true;
	__sync_fetch_and_add(n, -1);
	return false;
}

/* One less. A uid that was evicted meanwhile is counted anew: never below 0. */
static inline void dismiss(u32 uid)
{
	s64 *n = uid ? bpf_map_lookup_elem(&agent_uids, &uid) : NULL;

	if (n && fetch_add(n, -1) <= 0)
		__sync_fetch_and_add(n, 1);
}

static inline struct agent *agent_of(struct task_struct *t, char comm[COMM_LEN])
{
	bpf_probe_read_kernel_str(comm, COMM_LEN, t->comm);
	return bpf_map_lookup_elem(&agents, comm);
}

/*
 * The session is named comm until user space gives it the name from its rule. g is NULL
 * for a process that was put into a container.
 */
static inline void open_for(struct task_struct *t, u64 from, struct agent *g,
			    bool joined, const char comm[COMM_LEN])
{
	u32 zero = 0, slot, uid = uid_of(t);
	struct verb_args *a = bpf_map_lookup_elem(&opening, &zero);

	if (!a || !admit(uid)) {
		count(COUNT_AGENT_REFUSED);
		return;
	}
	/* CPUs that do this at the same time may take a few more. */
	if ((uid && READ_ONCE(control.taken) >= MAX_SESSIONS - ROOT_SLOTS) ||
	    !take_slot(&slot)) {
		dismiss(uid);
		count(COUNT_AGENT_REFUSED);
		return;
	}
	__builtin_memset(a, 0, sizeof(*a));
	a->random = bpf_get_prandom_u32();
	a->from = from;
	a->flags = SESSION_AGENT |
		   (joined ? SESSION_JOINED | SESSION_KEEP_ON_ROOT_EXIT : 0);
	if (g) {
		a->grace = g->grace;
		a->max_lifetime = g->max_lifetime;
		a->max_rss = g->max_rss;
		a->idle = g->idle;
		a->max_processes = g->max_processes;
		a->flags |= g->session_flags;
		a->rule = g->rule;
	}
	a->uid = uid;
	a->evidence = joined ? SOURCE_JOIN : SOURCE_RULE;
	__builtin_memcpy(a->name, comm, COMM_LEN);
	if (create_in(a, t, slot, false)) {
		give_back(slot);
		dismiss(uid);
		count(COUNT_AGENT_REFUSED);
	}
}

#ifndef BASELINE
/* Global, so that the verifier checks it once, and not for each way to it. */
__noinline int open_current(u64 from, bool named, bool joined)
{
	struct task_struct *t = plain(bpf_get_current_task_btf());
	char comm[COMM_LEN] = {};
	struct agent *g = agent_of(t, comm);

	open_for(t->group_leader, from, named ? g : NULL, joined, comm);
	return 0;
}
#define open_here(t, from, g, joined) open_current(from, g, joined)
#else
#define open_here(t, from, g, joined) \
	open_for(t->group_leader, from, g, joined, comm)
#endif

/* Has the process become what a rule may want a session for? */
static inline bool opens(struct task_struct *t, u32 looks, char comm[COMM_LEN])
{
	return (looks & LOOK_NAMES && agent_of(t, comm)) || put_in(t, looks);
}

/* Must this agent not start, which is in that session? */
static inline bool barred(const struct agent *g, u64 in)
{
	u32 mode = READ_ONCE(control.halt.mode);

	return g && g->flags & AGENT_EXACT &&
	       (mode == HALT_ALL || (mode == HALT_DRAIN && !in));
}

/* Kill an agent that must not start. Runs in the process itself. */
static inline void refuse_agent(struct entry *e)
{
	if (e)
		kill_current(e);
	else
		bpf_send_signal(SIGKILL);
	count(COUNT_AGENT_HALTED);
}

/*
 * The process has become a program with an agent's name, or was put into a container:
 * open a session before its first fork. User space checks whether a rule wants it, and
 * releases the process if not. Runs in the process itself.
 *
 * A halt sets its mode, and then lists the sessions once more. So the mode is read again when the
 * record is there: the list has the session, or this sees the mode. It is read before,
 * too, so that an agent that is started again and again takes no slots.
 */
static inline void on_agent(struct task_struct *t)
{
	struct entry *e = entered(t->tgid, t->group_leader->start_boottime);
	u32 looks = READ_ONCE(control.agents);
	char comm[COMM_LEN] = {};
	struct agent *g = agent_of(t, comm);
	bool joined = put_in(t, looks);
	u64 in = 0;

	/* Not a program that the kernel started. */
	if ((!g && !joined) || t->real_parent->flags & PF_KTHREAD)
		return;
	if (e) {
		in = e->session;
		if (e->flags & FLAG_PROTECTED)
			return;
	}
	if (barred(g, in)) {
		refuse_agent(e);
		return;
	}
	if (!(looks & LOOK_NAMES))
		g = NULL;
	if (!g && !joined)
		return;
	/*
	 * A root that becomes another program stays the root of its session, unless that is
	 * being dissolved. FLAG_ROOT may not be set yet. A member that is put into a
	 * container stays in its session.
	 */
	if (e && in &&
	    (!g || !(g->flags & AGENT_NESTS) || condemned(in) ||
	     (is_root(in, t->tgid, e->start) && home_of(in) == in)))
		return;
	open_here(t, in, g, joined && !in);
	if (barred(g, in))
		refuse_agent(entered(t->tgid, t->group_leader->start_boottime));
}

#endif
