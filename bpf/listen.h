/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which member listens on a TCP port, and until when. The hook sees every change of a
 * socket's state, so its first test is on LISTEN: most are others.
 *
 * The key of a socket is its address. Its port is 0 when it closes, unless it was bound
 * explicitly, and several sockets may share a port. The last process to drop it closes
 * it, member or not, so a map holds the process that began to listen.
 */
#ifndef LINEAGE_LISTEN_H
#define LINEAGE_LISTEN_H

#include "current.h"
#include "event.h"
#include "session.h"

/*
 * Listening sockets, and stops by signals, that an outermost session may report in each
 * 8.6 s. One thread that does nothing but listen and close would push all other events
 * out of the reader's memory. The others are found in /proc, like those that were
 * inherited from outside.
 */
#define LISTENS 512
#define LISTEN_WINDOW_BITS 33 /* of a time in ns */

/* Of members only. A socket that finds no room here is found in /proc. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct listener);
} listeners SEC(".maps");

static inline void emit_listener(u16 type, u64 socket, const struct listener *l)
{
	struct event_listen *e = reserve(struct event_listen);

	if (!e)
		return;
	header(&e->h, type, l->process.tgid, l->process.start, l->session, 0);
	e->socket = socket;
	e->listener = *l;
	bpf_ringbuf_submit(e, wakeup(false));
}

__noinline bool within_limit(u64 id, u64 now)
{
	struct session *s, *top = NULL;
	u64 window = now >> LISTEN_WINDOW_BITS;

	for_each_counted(id, s)
		top = s;
	if (!top)
		return true;
	if (READ_ONCE(top->listen_window) != window) {
		top->listen_window = window;
		top->listens = 0;
	}
	return fetch_add(&top->listens, 1) < LISTENS;
}

/* Runs in the process that listens. The port is 0 if the kernel chooses it after this. */
static inline void begins_to_listen(struct sock *sk)
{
	struct listener l = { .process.tgid = current_tgid(),
			      .process.start = current_start() };
	struct entry *e = entry_at(l.process.tgid);
	u64 socket = (u64)sk;

	if (!e || e->start != l.process.start || !e->session)
		return;
	l.session = e->session;
	l.since = bpf_ktime_get_boot_ns();
	if (!within_limit(l.session, l.since)) {
		count(COUNT_LISTEN_LIMITED);
		return;
	}
	l.family = sk->__sk_common.skc_family;
	l.port = sk->__sk_common.skc_num;
	if (l.family == AF_INET)
		bpf_probe_read_kernel(l.address, 4,
				      &sk->__sk_common.skc_rcv_saddr);
	else if (bpf_core_field_exists(sk->__sk_common.skc_v6_rcv_saddr))
		bpf_probe_read_kernel(l.address, 16,
				      &sk->__sk_common.skc_v6_rcv_saddr);
	if (bpf_map_update_elem(&listeners, &socket, &l, BPF_ANY))
		count(COUNT_LISTEN_FAILED);
	emit_listener(EVENT_LISTEN, socket, &l);
}

static inline void stops_listening(struct sock *sk)
{
	u64 socket = (u64)sk;
	struct listener *found = bpf_map_lookup_elem(&listeners, &socket), l;

	if (!found)
		return;
	l = *found;
	if (bpf_map_delete_elem(&listeners, &socket) != -ENOENT)
		emit_listener(EVENT_UNLISTEN, socket, &l);
}

/*
 * MPTCP, which Go's servers use, reports its own socket and a TCP one, which is enough.
 * LISTEN to SYN_RECV does not count: a connection begins as a copy of its listener.
 */
static inline void on_tcp_state(struct sock *sk, int from, int to)
{
	if (to == TCP_LISTEN) {
		if (sk->sk_protocol == IPPROTO_TCP)
			begins_to_listen(sk);
	} else if (from == TCP_LISTEN && to == TCP_CLOSE) {
		stops_listening(sk);
	}
}

#endif
