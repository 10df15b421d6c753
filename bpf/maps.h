/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef LINEAGE_MAPS_H
#define LINEAGE_MAPS_H

#include "atomics.h"
#include <bpf/bpf_helpers.h>

/* Set by the loader before the programs are verified. */
const volatile struct config {
	u32 can_signal; /* bpf_send_signal_task is there: 6.13, commit 6280cf718db0 */
	u32 second_writers; /* the fentry programs are attached */
	u32 exact_reaps; /* fentry/release_task is attached */
	u32 hook_visits; /* processes that one pass inside a hook may visit */
	u32 deaths; /* what outsiders die of is kept */
	u32 pad;
	u64 ring_half; /* bytes in the ring above which the reader is woken even if it polls */
} config = {};

/* The only writable global, so that user space finds it at offset 0 of .bss. */
struct shared control = {};

/* As many as there are PIDs. Never LRU: a live member whose entry is evicted escapes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u32);
	__type(value, struct entry);
} processes SEC(".maps");

/* The sessions of commands in containers, by the members that asked for them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct identity);
	__type(value, u64);
} clients SEC(".maps");

/* User space maps it: to copy every slot, to list a few sessions, takes milliseconds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, u32);
	__type(value, struct session);
} sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, u32);
	__type(value, struct ctl);
} session_ctl SEC(".maps");

/* Slots without a session, oldest first, so that a slot is not reused at once. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MAX_SESSIONS);
	__type(value, u32);
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct verb_args);
} verb SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_MAX);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

/* By comm. Any user may give a program such a name: hence the limit for each uid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, char[COMM_LEN]);
	__type(value, struct agent);
} agents SEC(".maps");

/*
 * How many agents' sessions each uid has, except root. It is only a limit: a uid that
 * was not seen for long may be evicted, so that others cannot fill the map for good.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, s64);
} agent_uids SEC(".maps");

/* The arguments with which an exec creates a session: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct verb_args);
} opening SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

/*
 * The elder's processes during a take-over, see elder.h. Its entries may have another
 * layout: the loader sets the size of the template, and the offsets of the fields in
 * elder_layout.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_HASH);
			__uint(max_entries, 1);
			__type(key, u32);
			__type(value, struct entry);
		});
} elder SEC(".maps");

const volatile struct elder_layout {
	u32 present; /* there is an elder; if not, the verifier drops the code for it */
	u32 start; /* byte offsets in its entries */
	u32 session;
	u32 since;
	u32 creator;
	u32 flags;
	u32 evidence;
	u32 exe;
	u32 knows_exe; /* older versions have no exe */
} elder_layout = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct own_key);
	__type(value, u8);
} own SEC(".maps");

struct exec_scratch {
	struct event_exec e;
	char tail[FILENAME_MAX_LEN + ARGV_MAX_LEN + TRACE_MAX_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct exec_scratch);
} scratch SEC(".maps");

static inline u64 count(u32 which)
{
	u64 *c = bpf_map_lookup_elem(&counters, &which);

	return c ? fetch_add(c, 1) : 0;
}

#endif
