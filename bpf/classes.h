/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which processes may have an entry, alive or dead. Nearly all that the hooks see have
 * none. To find that out in the hash costs two to four times as much as the rest of the
 * hook: its buckets are spread over half a megabyte, and the right one is in no cache.
 * So entries are also counted by the last bits of their tgid. PIDs are assigned in
 * order, so processes born together are neighbours here, and all of it stays in the
 * cache.
 *
 * The count is raised before the insert, by a full barrier, and lowered after the
 * delete. It is never less than the entries, so 0 means that there is none. Where a
 * comment says that a program sees an entry, it sees the count, too.
 */
#ifndef LINEAGE_CLASSES_H
#define LINEAGE_CLASSES_H

#include "maps.h"

#define CLASSES 4096 /* 16 KiB, one cache line for 16 processes born in a row */

struct classes {
	u32 entries[CLASSES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct classes);
} classes SEC(".maps");

static inline u32 *class_of(u32 tgid)
{
	u32 zero = 0;
	struct classes *c = bpf_map_lookup_elem(&classes, &zero);

	return c ? &c->entries[tgid & (CLASSES - 1)] : NULL;
}

static inline bool occupied(u32 tgid)
{
	u32 *n = class_of(tgid);

	return !n || READ_ONCE(*n);
}

static inline void occupy(u32 tgid)
{
	u32 *n = class_of(tgid);

	if (n)
		fetch_add(n, 1);
}

static inline void vacate(u32 tgid)
{
	u32 *n = class_of(tgid);

	if (n)
		__sync_fetch_and_add(n, -1);
}

/* As bpf_map_lookup_elem, but fast for a process that is probably an outsider. */
static inline struct entry *entry_at(u32 tgid)
{
	return occupied(tgid) ? bpf_map_lookup_elem(&processes, &tgid) : NULL;
}

static inline long insert(u32 tgid, const struct entry *n)
{
	long err;

	occupy(tgid);
	err = bpf_map_update_elem(&processes, &tgid, n, BPF_NOEXIST);
	if (err)
		vacate(tgid);
	return err;
}

static inline long erase(u32 tgid)
{
	long err = bpf_map_delete_elem(&processes, &tgid);

	if (!err)
		vacate(tgid);
	return err;
}

/* Delete an element that no other program may delete or replace. */
static inline void drop(u32 tgid, struct entry *e)
{
	if (!erase(tgid))
		return;
	count(COUNT_DELETE_FAILED);
	e->session = 0;
	WRITE_ONCE(e->start, START_COUNTED);
}

/* The entry of a living process. */
static inline struct entry *entered(u32 tgid, u64 start)
{
	struct entry *e = entry_at(tgid);

	return e && e->start == start ? e : NULL;
}

static inline bool alive(const struct identity *id)
{
	return entered(id->tgid, id->start);
}

/* The entry of a dead process that no program has counted as reaped, or counts now. */
static inline struct entry *dead_at(const struct identity *id)
{
	u32 tgid = id->tgid;
	u64 dead = ENTRY_DEAD | ENTRY_TEARING | id->start;
	struct entry *e = bpf_map_lookup_elem(&processes, &tgid);

	return e && id->start && (e->start | ENTRY_TEARING) == dead ? e : NULL;
}

#endif
