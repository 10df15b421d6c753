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

#define HOOK(section, name, does, ...)  \
	SEC(section)                    \
	int BPF_PROG(name, __VA_ARGS__) \
	{                               \
		does;                   \
		return 0;               \
	}

HOOK("tp_btf/sched_process_fork", fork_birth, on_fork(creator, child),
     struct task_struct *creator, struct task_struct *child)
HOOK("tp_btf/sched_process_exec", exec_event, on_exec(t, bprm),
     struct task_struct *t, int old_pid, struct linux_binprm *bprm)
HOOK("tp_btf/sched_process_exit", exit_death, on_exit(t), struct task_struct *t)
HOOK("tp_btf/sched_process_free", free_reaped, on_free(t), struct task_struct *t)
HOOK("tp_btf/inet_sock_set_state", tcp_state, on_tcp_state(sk, from, to),
     struct sock *sk, int from, int to)

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_sent, int sig, void *info, struct task_struct *t, int group,
	     int result)
{
	if (on_signal(ctx, sig, t, result))
		on_sent(ctx, sig, t);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_moved, struct cgroup *to, const char *path,
	     struct task_struct *t)
{
	on_moved(to, path, t);
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

HOOK("fentry/do_notify_parent", notify_death, on_notify(t), struct task_struct *t)
HOOK("fentry/kill_orphaned_pgrp", orphan_reparent, on_reparent(t, father),
     struct task_struct *t, struct task_struct *father)

SEC("iter/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *t = ctx->task;

	return t ? on_snapshot(seq, plain(t)) : 0; /* NULL: the walk is over */
}

/* What another program has refused stays refused. */
#define REFUSAL(section, name, does, ...) \
	HOOK(section, name, return ret ? ret : does, __VA_ARGS__, int ret)

/*
 * Of these two, and of the next two, only one is used. The flags are u64 since 6.18, commit
 * edd3cb05c00a, and were unsigned long before, which is the same where this runs.
 */
REFUSAL("lsm/task_alloc", refuse_lsm, refuse_fork(clone_flags),
	struct task_struct *child, u64 clone_flags)
REFUSAL("fmod_ret/security_task_alloc", refuse_fmod_ret, refuse_fork(clone_flags),
	struct task_struct *child, u64 clone_flags)

REFUSAL("lsm/task_kill", guard_lsm, refuse_signal(ctx, t, sig),
	struct task_struct *t, void *info, int sig, void *cred)
REFUSAL("fmod_ret/security_task_kill", guard_fmod_ret, refuse_signal(ctx, t, sig),
	struct task_struct *t, void *info, int sig, void *cred)

REFUSAL("lsm/task_kill", self_kill, deny_signal(t, sig), struct task_struct *t,
	void *info, int sig, void *cred)
REFUSAL("lsm/file_send_sigiotask", self_sigio, deny_sigio(t),
	struct task_struct *t, void *owner, int sig)
REFUSAL("lsm/ptrace_access_check", self_ptrace, deny_ptrace(t, mode),
	struct task_struct *t, unsigned int mode)
REFUSAL("lsm/bpf_map", self_map, deny_map(map), struct bpf_map *map,
	unsigned int mode)
REFUSAL("lsm/bpf_prog", self_program, deny_program(p), struct bpf_prog *p)
REFUSAL("lsm/inode_unlink", self_unlink, deny_unlink(dir), struct inode *dir,
	struct dentry *d)
REFUSAL("lsm/inode_rename", self_rename, deny_rename(from, what, to),
	struct inode *from, struct dentry *what, struct inode *to,
	struct dentry *over)

#endif
