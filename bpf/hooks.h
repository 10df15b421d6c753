/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The programs that both objects have, and the types that bpf2go exports. */
#ifndef LINEAGE_HOOKS_H
#define LINEAGE_HOOKS_H

#include "exec.h"
#include "guard.h"
#include "listen.h"
#include "reparent.h"
#include "self.h"
#include "snapshot.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_process_fork")
int BPF_PROG(fork_birth, struct task_struct *creator, struct task_struct *child)
{
	on_fork(creator, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec_event, struct task_struct *t, int old_pid, struct linux_binprm *bprm)
{
	on_exec(t, bprm);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exit_death, struct task_struct *t)
{
	on_exit(t);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(free_reaped, struct task_struct *t)
{
	on_free(t);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_state, struct sock *sk, int from, int to)
{
	on_tcp_state(sk, from, to);
	return 0;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_sent, int sig, void *info, struct task_struct *t, int group, int result)
{
	if (on_signal(ctx, sig, t, result))
		on_sent(ctx, sig, t);
	return 0;
}

/*
 * Level 2 only, and only while condemned members live: it costs every syscall on the
 * host. A member that no pass has met yet dies when it next enters the kernel.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_closer)
{
	on_syscall();
	return 0;
}

SEC("fentry/attach_pid")
int BPF_PROG(attach_birth, struct task_struct *child, enum pid_type type)
{
	if (type == PIDTYPE_TGID)
		on_attach(child);
	return 0;
}

SEC("fentry/do_notify_parent")
int BPF_PROG(notify_death, struct task_struct *t)
{
	on_notify(t);
	return 0;
}

SEC("fentry/kill_orphaned_pgrp")
int BPF_PROG(orphan_reparent, struct task_struct *t, struct task_struct *father)
{
	on_reparent(t, father);
	return 0;
}

/*
 * Only one of the two is used. The flags are u64 since 6.18, commit edd3cb05c00a, and
 * were unsigned long before, which is the same where this runs.
 */
SEC("lsm/task_alloc")
int BPF_PROG(refuse_lsm, struct task_struct *child, u64 clone_flags, int ret)
{
	return ret ? ret : refuse_fork(clone_flags);
}

SEC("fmod_ret/security_task_alloc")
int BPF_PROG(refuse_fmod_ret, struct task_struct *child, u64 clone_flags, int ret)
{
	return ret ? ret : refuse_fork(clone_flags);
}

/* Only one of the two is used. */
SEC("lsm/task_kill")
int BPF_PROG(guard_lsm, struct task_struct *t, void *info, int sig, void *cred, int ret)
{
	return ret ? ret : refuse_signal(ctx, t, sig);
}

SEC("fmod_ret/security_task_kill")
int BPF_PROG(guard_fmod_ret, struct task_struct *t, void *info, int sig, void *cred, int ret)
{
	return ret ? ret : refuse_signal(ctx, t, sig);
}

SEC("iter/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *t = ctx->task;

	return t ? on_snapshot(seq, plain(t)) : 0; /* NULL: the walk is over */
}

SEC("lsm/task_kill")
int BPF_PROG(self_kill, struct task_struct *t, void *info, int sig, void *cred, int ret)
{
	return ret ? ret : deny_signal(t, sig);
}

SEC("lsm/file_send_sigiotask")
int BPF_PROG(self_sigio, struct task_struct *t, void *owner, int sig, int ret)
{
	return ret ? ret : deny_sigio(t);
}

SEC("lsm/ptrace_access_check")
int BPF_PROG(self_ptrace, struct task_struct *t, unsigned int mode, int ret)
{
	return ret ? ret : deny_ptrace(t, mode);
}

SEC("lsm/bpf_map")
int BPF_PROG(self_map, struct bpf_map *map, unsigned int mode, int ret)
{
	return ret ? ret : deny_map(map);
}

SEC("lsm/bpf_prog")
int BPF_PROG(self_program, struct bpf_prog *p, int ret)
{
	return ret ? ret : deny_program(p);
}

SEC("lsm/inode_unlink")
int BPF_PROG(self_unlink, struct inode *dir, struct dentry *d, int ret)
{
	return ret ? ret : deny_unlink(dir);
}

SEC("lsm/inode_rename")
int BPF_PROG(self_rename, struct inode *from, struct dentry *what, struct inode *to,
	     struct dentry *over, int ret)
{
	return ret ? ret : deny_rename(from, what, to);
}

#endif
