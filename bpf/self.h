/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Self-protection: members, root or not, may not act against the daemon or its pins.
 * Other processes always may, except by deny_sigio. The programs are attached only when
 * the policy asks for them, and are pinned: the pins need them most while no daemon
 * lives.
 *
 * This makes it harder, not impossible: root has other ways, see KNOWN_ISSUES.md.
 */
#ifndef LINEAGE_SELF_H
#define LINEAGE_SELF_H

#include "refuse.h"

#define PTRACE_MODE_ATTACH 0x02
#define BPF_FS_MAGIC 0xcafe4a11

/* Is it the daemon? The entry leaves with it, so a later process with the PID is not. */
static inline bool is_daemon(struct task_struct *t)
{
	struct task_struct *leader = t->group_leader;
	struct entry *e = entered(leader->tgid, leader->start_boottime);

	return e && e->flags & FLAG_DAEMON;
}

/* If current is a member, refuse what it would do to something of ours. */
static inline int deny(bool is_ours)
{
	if (!is_ours || !member_at(current_tgid(), current_start()))
		return 0;
	count(COUNT_SELF_DENIED);
	return -EPERM;
}

/*
 * The kernel's own signals do not come here, and current is the sender. Exception: a
 * USB transfer that ends, which signals only the process that started it.
 */
static inline int deny_signal(struct task_struct *to, int sig)
{
	return sig ? deny(is_daemon(to)) : 0;
}

/*
 * fcntl(F_SETOWN) and F_SETSIG turn the readiness of a file into any signal. The cause
 * is unknown here, as this may run in an interrupt. The daemon asks for no such
 * signals, so it gets none from any process.
 */
static inline int deny_sigio(struct task_struct *to)
{
	if (!is_daemon(to))
		return 0;
	count(COUNT_SELF_DENIED);
	return -EPERM;
}

/*
 * ptrace, process_vm_writev, /proc/PID/mem, pidfd_getfd. PTRACE_MODE_READ stays
 * allowed, or ps and lsof would fail in a session.
 */
static inline int deny_ptrace(struct task_struct *of, u32 mode)
{
	return mode & PTRACE_MODE_ATTACH ? deny(is_daemon(of)) : 0;
}

static inline bool known(u32 device, u32 id)
{
	struct own_key k = { .device = device, .id = id };

	return bpf_map_lookup_elem(&own, &k);
}

/* A process that has a descriptor of a map can write to it, directly or by a program. */
static inline int deny_map(struct bpf_map *map)
{
	return deny(known(0, map->id));
}

/*
 * Types of programs that see only packets, sockets, cgroups and devices: members may
 * need them, for example a container engine in a session. All others, the newer ones
 * too, can run verbs, signal the daemon from inside one of its own system calls, or
 * change what it reads.
 */
#define TYPE(n) (1ULL << (n))
#define HARMLESS_TYPES                                                            \
	(TYPE(1) /* socket_filter */ | TYPE(3) /* sched_cls */ |                  \
	 TYPE(4) /* sched_act */ | TYPE(6) /* xdp */ | TYPE(8) /* cgroup_skb */ | \
	 TYPE(9) /* cgroup_sock */ | TYPE(10) | TYPE(11) | TYPE(12) /* lwt */ |   \
	 TYPE(13) /* sock_ops */ | TYPE(14) /* sk_skb */ |                        \
	 TYPE(15) /* cgroup_device */ | TYPE(16) /* sk_msg */ |                   \
	 TYPE(18) /* cgroup_sock_addr */ | TYPE(19) /* lwt_seg6local */ |         \
	 TYPE(20) /* lirc_mode2 */ | TYPE(21) /* sk_reuseport */ |                \
	 TYPE(22) /* flow_dissector */ | TYPE(23) /* cgroup_sysctl */ |           \
	 TYPE(25) /* cgroup_sockopt */ | TYPE(30) /* sk_lookup */ |               \
	 TYPE(32) /* netfilter */)

/*
 * Each load, open by id and open of a pin ends here. All programs of ours have a type
 * that is denied, so their ids need not be known.
 */
static inline int deny_program(struct bpf_prog *p)
{
	u32 type = p->type;

	return deny(type > 63 || !(HARMLESS_TYPES & TYPE(type)));
}

static inline bool own_inode(struct inode *i)
{
	return i->i_sb->s_magic == BPF_FS_MAGIC && known(i->i_sb->s_dev, i->i_ino);
}

/* When its link is unpinned, a program is detached. */
static inline int deny_unlink(struct inode *dir)
{
	return deny(own_inode(dir));
}

/* A pin moved away or replaced, or the directory itself: the next daemon would miss it. */
static inline int deny_rename(struct inode *from, struct dentry *what,
			      struct inode *to)
{
	struct inode *itself = what->d_inode;

	if (from->i_sb->s_magic != BPF_FS_MAGIC)
		return 0;
	return deny(own_inode(from) || own_inode(to) ||
		    (itself && own_inode(itself)));
}

#endif
