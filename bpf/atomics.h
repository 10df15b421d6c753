/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Atomics. The baseline object is for kernels that have no atomics with a result
 * (before 5.12): there only an addition is atomic.
 */
#ifndef LINEAGE_ATOMICS_H
#define LINEAGE_ATOMICS_H

#include "lineage.h"
#include <bpf/bpf_helpers.h>

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (READ_ONCE(x) = (value))

#ifndef BASELINE

/* Full barriers, as is every atomic with a result. */
#define fetch_add(p, n) __sync_fetch_and_add(p, n)
#define swap(p, old, new) (__sync_val_compare_and_swap(p, old, new) == (old))
#define take_out(p) __sync_lock_test_and_set(p, 0)
#define set_flags(e, f) __sync_fetch_and_or(&(e)->flags, f)
#define clear_flags(e, f) __sync_fetch_and_and(&(e)->flags, ~(f))

#else

/* Two callers may get the same: fine for sequence numbers (hints), the peak and limits. */
#define fetch_add(p, n) (__sync_fetch_and_add(p, n), READ_ONCE(*(p)) - (n))

/*
 * Only where there is no other writer: on a process that was entered a moment ago and
 * does not run yet, and in verbs, which user space runs one at a time. Only verbs
 * change states here.
 */
#define swap(p, old, new) \
	(READ_ONCE(*(p)) == (old) ? (WRITE_ONCE(*(p), new), true) : false)
#define take_out(p) WRITE_ONCE(*(p), 0)

/*
 * Each byte of the flags has one kind of writer. The flags that a pass checks are
 * written by verbs; the second byte says what was sent, for the report; the third is the
 * hook's on signals. The last byte is a pause's: who loses a flag there to another writer
 * reads the pause again.
 */
static inline void set_flags(struct entry *e, u32 flags)
{
	for (int i = 0; i < 4; i++, flags >>= 8)
		if (flags & 0xff)
			((volatile u8 *)&e->flags)[i] |= flags;
}

static inline void clear_flags(struct entry *e, u32 flags)
{
	for (int i = 0; i < 4; i++, flags >>= 8)
		if (flags & 0xff)
			((volatile u8 *)&e->flags)[i] &= ~flags;
}

#endif
#endif
