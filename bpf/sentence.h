/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The sentence: carry out what the sessions' states demand. A pass walks all
 * processes once, finds for each member what is to happen to it, and does it.
 * It holds no state of its own, so any number may run at once, and a pass
 * that was cut short is finished by the next.
 *
 * Complete together with doomed() in birth.h: a child is linked into the task
 * list behind its creator before it is entered. The pass reaches the creator,
 * and settles the state, before it reaches the child; a child that is not
 * entered by then reads that state when it is.
 */
#ifndef LINEAGE_SENTENCE_H
#define LINEAGE_SENTENCE_H

#include "birth.h"

#define RETRY_NS 1000000

struct pass {
	u64 now; /* CLOCK_MONOTONIC */
	u64 now_boot;
	u64 next; /* earliest deadline that was met and still runs */
	u64 next_boot; /* the same of max_lifetime */
	/* u64, as the verifier generalises only whole stack slots in a loop. */
	u64 visited;
	u64 sent;
	u64 failed;
	u64 unsent; /* no signals from BPF here: user space sends them */
	u64 limit; /* processes to signal, 0: all */
};

static __always_inline bool alive(const struct identity *id)
{
	u32 tgid = id->tgid;
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && e->start == id->start;
}

/* Bring the session's state up to date; give it, and since when it ends. */
static __always_inline u32 judge(struct session *s, struct ctl *c, struct pass *p)
{
	u32 state = STATE(*(volatile u32 *)&c->status);

	if (state == STATE_ACTIVE) {
		u64 expires = c->expires;

		if (expires && expires <= p->now_boot)
			begin_end(c, c->flags & SESSION_KEPT ? CAUSE_EXPIRED : CAUSE_MAX_LIFETIME,
				  c->grace);
		else if (expires && (!p->next_boot || expires < p->next_boot))
			p->next_boot = expires;
		if (!(c->flags & SESSION_KEEP_ON_ROOT_EXIT) && !alive(&s->root))
			begin_end(c, CAUSE_ROOT_EXIT, c->grace);
		else if (s->owner.tgid && !alive(&s->owner))
			begin_end(c, CAUSE_OWNER_EXIT, c->grace);
		state = STATE(*(volatile u32 *)&c->status);
	}
	if (state == STATE_ENDING) {
		u64 deadline = *(volatile u64 *)&c->deadline;

		if (deadline && deadline <= p->now) {
			condemn(c);
			state = STATE(*(volatile u32 *)&c->status);
		} else if (deadline && (!p->next || deadline < p->next)) {
			p->next = deadline;
		}
	}
	return state;
}

/* What the member's sessions demand: 0, SIGTERM or SIGKILL. Global as signal_process is. */
__noinline int demand(u64 id, u64 since, u32 flags, struct pass *p)
{
	int sig = 0;

	if (!p)
		return 0;
	for (int i = 0; i < MAX_DEPTH; i++) {
		struct session *s = session_of(id);
		struct ctl *c = ctl_of(id);
		u32 state;

		if (!s || !c)
			break;
		state = judge(s, c, p);
		if (state >= STATE_CONDEMNED)
			return SIGKILL;
		/* Who was born after the end began is somebody's last helper: it gets the grace. */
		if (state == STATE_ENDING && !(flags & FLAG_TERMED) &&
		    (!c->ended_at || since <= c->ended_at))
			sig = SIGTERM;
		id = s->parent;
	}
	return sig;
}

static __always_inline void visit(struct task_struct *t, struct pass *p)
{
	u32 tgid = t->tgid, mark;
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);
	struct task_struct *ref;
	u64 session;
	int sig, err;

	if (!e || e->start != t->start_boottime)
		return;
	session = *(volatile u64 *)&e->session;
	if (!session || e->flags & FLAG_PROTECTED)
		return;
	sig = demand(session, e->since, e->flags, p);
	/* Already being killed: the kernel's own word, not ours. */
	if (!sig || t->signal->flags & SIGNAL_GROUP_EXIT)
		return;
	if (!config.can_signal) {
		p->unsent++;
		return;
	}
	/*
	 * Before the send, as the member may be dead right after it. Should the
	 * element be another's by now, then t is dead and takes no signal, and a
	 * stranger's flag says at worst that it had its SIGTERM.
	 */
	mark = sig == SIGKILL ? FLAG_KILLED : FLAG_TERMED;
	__sync_fetch_and_or(&e->flags, mark);
	ref = bpf_task_acquire(t);
	if (!ref)
		return;
	err = signal_process(ref, sig);
	bpf_task_release(ref);
	if (!err) {
		p->sent++;
	} else if (t->signal->live.counter > 0) {
		__sync_fetch_and_and(&e->flags, ~mark);
		p->failed++;
		count(err == -EBUSY ? COUNT_SIGNAL_BUSY : COUNT_SIGNAL_FAILED);
	}
}

/* Needs RCU and process context. */
static __always_inline void pass_all(struct pass *p)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	bool more = false;

	p->now = bpf_ktime_get_ns();
	p->now_boot = bpf_ktime_get_boot_ns();
	bpf_iter_task_new(&it, NULL, BPF_TASK_ITER_ALL_PROCS);
	while ((t = bpf_iter_task_next(&it))) {
		p->visited++;
		visit(t, p);
		if (p->limit && p->sent >= p->limit) {
			more = true;
			break;
		}
	}
	bpf_iter_task_destroy(&it);
	if (more)
		arm(1);
	else if (p->failed) /* not at once: a pass at every fork of the host would be worse */
		arm(p->now + RETRY_NS);
	if (p->next)
		arm(p->next);
	if (p->next_boot)
		arm_at(&control.due_boot, p->next_boot);
}

/* Take what is due, so that nobody else does: true if there was something. */
static __always_inline bool claim(u64 *due, u64 now)
{
	u64 old = *(volatile u64 *)due;

	return old && old <= now && __sync_val_compare_and_swap(due, old, 0) == old;
}

/*
 * The pass inside a hook, when one is due: whoever takes it does it. Its own
 * program on each tracepoint: inside the bookkeeping program its signals would
 * make 7.0 skip the very exits that they cause.
 */
static __always_inline void carry_out(void)
{
	struct pass p = { .limit = HOOK_SIGNALS };
	bool due = false;

	if (!*(volatile u64 *)&control.due && !*(volatile u64 *)&control.due_boot)
		return;
	/* The kernel takes no signal from one: it has no address space of its own. */
	if (bpf_get_current_task_btf()->flags & PF_KTHREAD)
		return;
	if (*(volatile u64 *)&control.due)
		due = claim(&control.due, bpf_ktime_get_ns());
	if (*(volatile u64 *)&control.due_boot)
		due |= claim(&control.due_boot, bpf_ktime_get_boot_ns());
	if (due)
		pass_all(&p);
}

#endif
