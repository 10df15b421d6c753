/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef LINEAGE_EXEC_H
#define LINEAGE_EXEC_H

#include "birth.h"
#include "current.h"
#include "open.h"

#ifndef BASELINE
/*
 * Not bpf_ringbuf_output: whether to wake the reader may be asked only once the event
 * has its place in the ring, see sleep() of the reader.
 */
static inline void emit_scratch(struct exec_scratch *x, u32 len)
{
	struct bpf_dynptr ring;

	if (bpf_ringbuf_reserve_dynptr(&events, len, 0, &ring))
		count(COUNT_LOST);
	else
		bpf_dynptr_write(&ring, 0, x, len, 0);
	bpf_ringbuf_submit_dynptr(&ring, wakeup(false));
}
#else
/*
 * Before 5.19 this cannot be asked between the two. So ask again afterwards, and wake a
 * reader that went to sleep meanwhile.
 */
static inline void emit_scratch(struct exec_scratch *x, u32 len)
{
	u64 flags = wakeup(false);
	void *nothing;

	if (len > sizeof(*x) || bpf_ringbuf_output(&events, x, len, flags)) {
		count(COUNT_LOST);
		return;
	}
	if (!(flags & BPF_RB_NO_WAKEUP) || READ_ONCE(control.polling))
		return;
	nothing = bpf_ringbuf_reserve(&events, sizeof(u64), 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}
#endif

#define TRACEPARENT "TRACEPARENT="
#define ENVIRON_READS 256

/*
 * Where the value of TRACEPARENT is in an environment, as for getenv(3); 0: not found. The length of each string
 * says where the next one begins; a longer one takes several reads. Nothing of the others is kept. Global: the
 * verifier checks it once.
 */
__noinline u64 find_trace(u64 at, u64 end)
{
	bool inside = false;
	char text[128] __attribute__((aligned(8))); /* compared by words */

	for (int i = 0; i < ENVIRON_READS && at < end; i++) {
		long got = bpf_probe_read_user_str(text, sizeof(text), (void *)at);

		if (got <= 0)
			break;
		if (!inside &&
		    !__builtin_memcmp(text, TRACEPARENT, sizeof(TRACEPARENT) - 1))
			return at + sizeof(TRACEPARENT) - 1;
		inside = got == sizeof(text);
		at += got - inside;
	}
	return 0;
}

/* Was the process started by its session's root, or by a process that a mark named? */
static inline bool of_agent(const struct entry *n)
{
	struct entry *by;

	if (is_root(n->session, n->creator.tgid, n->creator.start))
		return true;
	by = entered(n->creator.tgid, n->creator.start);
	return by && by->flags & FLAG_SPARED;
}

/* Append TRACEPARENT to the text of the event, and return its length. */
static inline u32 read_trace(struct exec_scratch *x, u32 len, struct mm_struct *mm)
{
	u64 at = find_trace(mm->env_start, mm->env_end);
	long got;

	if (!at || len > FILENAME_MAX_LEN + ARGV_MAX_LEN)
		return 0;
	got = bpf_probe_read_user_str(x->tail + len, TRACE_MAX_LEN, (void *)at);
	return got > 0 ? (got - 1) & (TRACE_MAX_LEN - 1) : 0;
}

static inline void emit_exec(struct task_struct *t, struct linux_binprm *bprm,
			     const struct entry *n, u32 tgid, u32 looks)
{
	u32 zero = 0, len = 0, room, trace;
	struct exec_scratch *x = bpf_map_lookup_elem(&scratch, &zero);
	struct mm_struct *mm = t->mm;
	unsigned long from, size;
	long got;

	if (!x || !mm)
		return;
	got = bpf_probe_read_kernel_str(x->tail, FILENAME_MAX_LEN, bprm->filename);
	if (got < 0)
		count(COUNT_READ_FAILED);
	if (got > 1 && got <= FILENAME_MAX_LEN)
		len = got - 1;
	x->e.filename_len = len;
	x->e.truncated = got == FILENAME_MAX_LEN;

	from = mm->arg_start;
	size = mm->arg_end - from;
	room = size;
	if (size > ARGV_MAX_LEN - 1) {
		room = ARGV_MAX_LEN - 1;
		x->e.truncated = 1;
	}
	len &= FILENAME_MAX_LEN - 1;
	if (bpf_probe_read_user(x->tail + len, room & (ARGV_MAX_LEN - 1),
				(void *)from)) {
		count(COUNT_READ_FAILED);
		room = 0;
		x->e.truncated = 1;
	}
	x->e.argv_len = room;
	x->e.cgroup = cgroup_of(t);
	x->e.pad = 0;
	describe(&x->e.facts, t);
	header(&x->e.h, EVENT_EXEC, tgid, n->start, n->session, n->flags);
	len += room & (ARGV_MAX_LEN - 1);
	trace = looks & LOOK_TRACES && of_agent(n) ? read_trace(x, len, mm) : 0;
	x->e.trace_len = trace;
	emit_scratch(x, len + trace + sizeof(x->e));
}

/* Kill or stop the current process, if its session demands that. */
static inline void obey(struct entry *e, u64 session)
{
	u32 demand = demanded(session);

	if (demand & CONDEMNED)
		kill_current(e);
	else if (demand & PAUSED)
		stop_current(e);
}

/* For a member that enters a system call. Runs in the process itself. */
static inline void on_syscall(void)
{
	u32 tgid = current_tgid();
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	if (e && e->session && e->start == current_start())
		obey(e, e->session);
}

#ifndef BASELINE
/* Global, as it is rare: the verifier checks it once, and has only one state after it. */
__noinline int become_agent(void)
{
	on_agent(plain(bpf_get_current_task_btf()));
	return 0;
}
#else
#define become_agent() on_agent(t)
#endif

/* Runs in the process itself, which has its new memory and name. */
static inline void on_exec(struct task_struct *t, struct linux_binprm *bprm)
{
	u32 tgid = t->tgid, looks = READ_ONCE(control.agents);
	char comm[COMM_LEN] = {};
	struct entry *e;
	struct entry n;

	/* A hook that a take-over stops from opening sessions still refuses agents. */
	if (READ_ONCE(control.halt.mode))
		looks |= LOOK_NAMES;
	if (looks && opens(t, looks, comm))
		become_agent();
	e = entered(tgid, t->group_leader->start_boottime);
	if (!e)
		return;
	identify_executed(&e->exe, bprm);
	if (!e->session)
		return;
	n = *e;
	obey(e, n.session);
	emit_exec(t, bprm, &n, tgid, looks);
}

#endif
