/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Atomics. The baseline object is for kernels that have none with a result
 * (they came with 5.12): there an addition is all that is atomic.
 */
#ifndef LINEAGE_ATOMICS_H
#define LINEAGE_ATOMICS_H

#include "lineage.h"
#include <bpf/bpf_helpers.h>

#ifndef BASELINE

/* Full barriers, as is every atomic with a result. */
#define fetch_add(p, n) __sync_fetch_and_add(p, n)
#define swap(p, old, new) (__sync_val_compare_and_swap(p, old, new) == (old))
#define take_out(p) __sync_lock_test_and_set(p, 0)
#define set_flags(e, f) __sync_fetch_and_or(&(e)->flags, f)
#define clear_flags(e, f) __sync_fetch_and_and(&(e)->flags, ~(f))

#else

/* Two may get the same: for sequence numbers, which only hint, and the peak. */
#define fetch_add(p, n) (__sync_fetch_and_add(p, n), *(volatile typeof(*(p)) *)(p) - (n))

/*
 * Where nobody else writes: to what was entered a moment ago and does not run
 * yet, and in verbs, of which user space runs one at a time. Only verbs move
 * states here.
 */
#define swap(p, old, new)                                                                         \
	(*(volatile typeof(*(p)) *)(p) == (old) ? (*(volatile typeof(*(p)) *)(p) = (new), true) : \
						  false)
#define take_out(p) (*(volatile typeof(*(p)) *)(p) = 0)

/*
 * The flags of one byte have one kind of writer. What a pass asks for is
 * written by verbs; the other byte says what was sent, for the report.
 */
static __always_inline void set_flags(struct entry *e, u32 flags)
{
	if (flags & 0xff)
		((volatile u8 *)&e->flags)[0] |= flags;
	if (flags >> 8)
		((volatile u8 *)&e->flags)[1] |= flags >> 8;
}

static __always_inline void clear_flags(struct entry *e, u32 flags)
{
	if (flags & 0xff)
		((volatile u8 *)&e->flags)[0] &= ~flags;
	if (flags >> 8)
		((volatile u8 *)&e->flags)[1] &= ~(flags >> 8);
}

#endif
#endif
