/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The arbiters of the baseline object, see arbiter.h. No atomic here tells which caller
 * won. So an insert decides, which fails if the key exists, or a delete, which fails if
 * it does not. The keys are identities, which are never reused.
 */
#ifndef LINEAGE_CLAIMS_H
#define LINEAGE_CLAIMS_H

/* Processes whose entry is being changed now. No caller waits for a claim. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct identity);
	__type(value, u32);
} claims SEC(".maps");

/* True for one caller, until it lets go. */
static inline bool claim(const struct identity *id)
{
	u32 mine = 1;
	long err = bpf_map_update_elem(&claims, id, &mine, BPF_NOEXIST);

	if (err && err != -EEXIST)
		count(COUNT_DELETE_FAILED);
	return !err;
}

/* The key of a note for the holder of the claim: another caller came to bury it. */
static inline struct identity word_of(const struct identity *id)
{
	return (struct identity){ .start = id->start, .tgid = id->tgid, .pad = 1 };
}

/* True if there is a note: its last thread is gone, and the holder has to bury it. */
static inline bool let_go(const struct identity *id)
{
	struct identity word = word_of(id);

	bpf_map_delete_elem(&claims, id);
	return !bpf_map_delete_elem(&claims, &word);
}

/* Under the claim the entry stays: only the holder deletes it. */
static inline struct entry *claimed(const struct identity *id)
{
	struct entry *e = entered(id->tgid, id->start);

	if (!e)
		let_go(id);
	return e;
}

/*
 * The note is written before the second try. Either that try finds the claim free, or
 * the holder finds the note: both sides go through the bucket locks of the same map.
 */
static inline bool seize(const struct identity *id, struct entry *seen,
			 u64 *session)
{
	struct identity word = word_of(id);
	struct entry *e;
	u32 died = 1;

	if (!claim(id)) {
		bpf_map_update_elem(&claims, &word, &died, BPF_ANY);
		if (!claim(id))
			return false;
	}
	e = claimed(id);
	if (!e)
		return false;
	*session = e->session;
	return true;
}

static inline bool end_dying(const struct identity *id, struct entry *e)
{
	bool ends;

	if (!(e->start & ENTRY_TEARING) || !claim(id))
		return false;
	e = dead_at(id);
	ends = e && e->start & ENTRY_TEARING;
	if (ends)
		e->start = ENTRY_DEAD | id->start;
	let_go(id);
	return ends;
}

static inline bool collect(const struct identity *id, struct entry *e,
			   u64 *session)
{
	if (!claim(id))
		return false;
	e = dead_at(id);
	if (!e || e->start & ENTRY_TEARING) {
		let_go(id);
		return false;
	}
	*session = e->session & ~SESSION_DEAD;
	return true;
}

int forget(u32 tgid, u64 start, int keep);

static inline bool reassign(const struct identity *id, struct entry *seen,
			    u64 from, u64 to)
{
	struct entry *e;
	bool moved;

	if (!claim(id))
		return false;
	e = claimed(id);
	if (!e)
		return false;
	moved = e->session == from;
	if (moved)
		e->session = to;
	if (let_go(id))
		forget(id->tgid, id->start, 0);
	return moved;
}

#endif
