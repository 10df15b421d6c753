/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A build for tests alone, in which calls of helpers fail, from the N-th on since user
 * space set `calls` to 0, and in which programs are held at a place. The compiler
 * includes this file before the sources, which have no trace of it. Two CPUs may take the
 * same number in the baseline object.
 *
 * Left out are helpers that fail only for what the code knows anyway.
 * bpf_task_from_pid and bpf_task_acquire find every task that was not reaped, because
 * its references go after its PID; the code relies on that. A look-up, a walk over a
 * map, and a read of a task's own fields cannot fail.
 */
#ifndef LINEAGE_FAULTS_H
#define LINEAGE_FAULTS_H

#include "atomics.h"
#include "kfuncs.h"

#define ENOMEM 12
#define EAGAIN 11
#define EFAULT 14

#define CALLS 4096 /* whose places are noted */

union place {
	char text[16]; /* "classes.h:64" */
	u64 half[2];
};

struct faults {
	u64 calls; /* that could have failed */
	u64 from,
		to; /* calls that fail, the first is 0, and to is the first that does not */
	u64 failed;
	union place places[CALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct faults);
} faults SEC(".maps");

#ifndef BASELINE /* bpf_loop is new in 5.17 */

enum { UNUSED, ARMED, HELD, LET_GO };

/*
 * The first program that comes to a place waits there, at most so many ns. The first
 * hold ends when user space says so, or the second one begins.
 */
struct hold {
	union place place; /* with a + behind the line: after the call */
	u64 most;
	u64 until;
	u32 state;
	u32 expired;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct hold);
} holds SEC(".maps");

static long is_over(u64 n, struct hold **h)
{
	for (int i = 0; i < 16; i++) /* there are at most 1 << 23 turns */
		if (READ_ONCE((*h)->state) != HELD ||
		    bpf_ktime_get_ns() > (*h)->until)
			return 1;
	return 0;
}

static inline void wait_at(u64 first, u64 second, u32 which)
{
	u32 zero = 0;
	struct hold *h = bpf_map_lookup_elem(&holds, &which);
	struct hold *before = which ? bpf_map_lookup_elem(&holds, &zero) : NULL;

	if (!h || h->place.half[0] != first || h->place.half[1] != second)
		return;
	h->until = bpf_ktime_get_ns() + h->most;
	if (!swap(&h->state, ARMED, HELD))
		return;
	if (before)
		WRITE_ONCE(before->state, LET_GO);
	bpf_loop(1 << 23, is_over, &h, 0);
	if (READ_ONCE(h->state) == HELD)
		h->expired = 1;
}

__noinline int hold(u64 first, u64 second)
{
	wait_at(first, second, 0);
	wait_at(first, second, 1);
	return 0;
}

#else
static inline int hold(u64 first, u64 second)
{
	return 0;
}
#endif

__noinline bool fault(u64 first, u64 second)
{
	u32 zero = 0;
	struct faults *f = bpf_map_lookup_elem(&faults, &zero);
	u64 n;

	if (!f)
		return false;
	n = fetch_add(&f->calls, 1);
	if (n < CALLS) {
		f->places[n].half[0] = first;
		f->places[n].half[1] = second;
	}
	if (n < f->from || n >= f->to)
		return false;
	__sync_fetch_and_add(&f->failed, 1);
	return true;
}

#define TEXT(line) #line
#define PLACE(file, line, after) ((union place){ file ":" TEXT(line) after })
#define HALVES(file, line, after) \
	PLACE(file, line, after).half[0], PLACE(file, line, after).half[1]
#define FAILS(line) fault(HALVES(__FILE_NAME__, line, ""))
#define OR(error, call) (FAILS(__LINE__) ? (error) : (call))
#define THEN_HOLD(call)                                     \
	({                                                  \
		long result = call;                         \
		hold(HALVES(__FILE_NAME__, __LINE__, "+")); \
		result;                                     \
	})
#define HOLD_FIRST(call) (hold(HALVES(__FILE_NAME__, __LINE__, "")), call)

#define bpf_map_update_elem(map, key, value, flags) \
	HOLD_FIRST(THEN_HOLD(                       \
		OR(-ENOMEM, bpf_map_update_elem(map, key, value, flags))))
#ifndef BASELINE /* the locks of older maps do not time out */
#define bpf_map_delete_elem(map, key) OR(-EBUSY, bpf_map_delete_elem(map, key))
#endif
#define bpf_map_push_elem(map, value, flags) \
	OR(-EBUSY, bpf_map_push_elem(map, value, flags))
#define bpf_map_pop_elem(map, value) \
	THEN_HOLD(OR(-EBUSY, bpf_map_pop_elem(map, value)))
#define bpf_ringbuf_reserve(ring, size, flags) \
	HOLD_FIRST(OR(NULL, bpf_ringbuf_reserve(ring, size, flags)))
#define bpf_ringbuf_output(ring, data, size, flags) \
	OR(-EAGAIN, bpf_ringbuf_output(ring, data, size, flags))
#define bpf_probe_read_user(to, size, from) \
	OR(-EFAULT, bpf_probe_read_user(to, size, from))
#define bpf_send_signal(sig) OR(-EBUSY, bpf_send_signal(sig))
#define bpf_send_signal_task(task, sig, type, value) \
	OR(-EBUSY, bpf_send_signal_task(task, sig, type, value))
#ifndef BASELINE
#undef swap
#define swap(p, old, new) \
	THEN_HOLD(__sync_val_compare_and_swap(p, old, new) == (old))
#endif
/* The verifier wants it called: a record of this size fits no ring. */
#define bpf_ringbuf_reserve_dynptr(ring, size, flags, record)                   \
	bpf_ringbuf_reserve_dynptr(ring, FAILS(__LINE__) ? ~0U : (size), flags, \
				   record)

#endif
