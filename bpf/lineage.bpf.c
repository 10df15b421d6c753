//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The programs. One file for each hook family holds what they do; here is
 * where they hang. On one tracepoint programs run in the order of their
 * attachment, and user space attaches bookkeeping before sentence.
 */
#include "lineage.h"
#include "exec.h"
#include "reparent.h"
#include "self.h"
#include "sentence.h"
#include "snapshot.h"
#include "verbs.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* bpf2go exports what is named here; an unused type has no BTF. */
const struct event_birth *const unused_birth = NULL;
const struct event_exec *const unused_exec = NULL;
const struct event_exit *const unused_exit = NULL;
const struct event_reparent *const unused_reparent = NULL;
const struct event_reaped *const unused_reaped = NULL;
const struct event_session *const unused_session = NULL;
const struct seen *const unused_seen = NULL;
const enum event_type *const unused_event_type = NULL;
const enum entry_flags *const unused_entry_flags = NULL;
const enum counter *const unused_counter = NULL;
const enum source *const unused_source = NULL;

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

SEC("tp_btf/sched_process_fork")
int BPF_PROG(fork_sentence)
{
	carry_out();
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec_sentence)
{
	carry_out();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exit_sentence)
{
	carry_out();
	return 0;
}

/*
 * Level 2 only, and only while condemned members live: it costs every syscall
 * of the host. What no pass has met yet dies when it next enters the kernel.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_closer)
{
	on_syscall(bpf_get_current_task_btf());
	return 0;
}

SEC("fentry/attach_pid")
int BPF_PROG(attach_birth, struct task_struct *child, enum pid_type type)
{
	if (type == PIDTYPE_TGID)
		on_attach(child, bpf_get_current_task_btf());
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
 * One of the two. The flags are u64 since 6.18, commit edd3cb05c00a, and were unsigned
 * long before: where this runs that is the same.
 */
SEC("lsm/task_alloc")
int BPF_PROG(refuse_lsm, struct task_struct *child, u64 clone_flags, int ret)
{
	return ret ? ret : refuse_fork(bpf_get_current_task_btf(), clone_flags);
}

SEC("fmod_ret/security_task_alloc")
int BPF_PROG(refuse_fmod_ret, struct task_struct *child, u64 clone_flags, int ret)
{
	return ret ? ret : refuse_fork(bpf_get_current_task_btf(), clone_flags);
}

SEC("lsm/task_kill")
int BPF_PROG(self_kill, struct task_struct *t, void *info, int sig, void *cred, int ret)
{
	return ret ? ret : deny_signal(t, sig, bpf_get_current_task_btf());
}

SEC("lsm/file_send_sigiotask")
int BPF_PROG(self_sigio, struct task_struct *t, void *owner, int sig, int ret)
{
	return ret ? ret : deny_sigio(t);
}

SEC("lsm/ptrace_access_check")
int BPF_PROG(self_ptrace, struct task_struct *t, unsigned int mode, int ret)
{
	return ret ? ret : deny_ptrace(t, mode, bpf_get_current_task_btf());
}

SEC("lsm/bpf_map")
int BPF_PROG(self_map, struct bpf_map *map, unsigned int mode, int ret)
{
	return ret ? ret : deny_map(map, bpf_get_current_task_btf());
}

SEC("lsm/bpf_prog")
int BPF_PROG(self_program, struct bpf_prog *p, int ret)
{
	return ret ? ret : deny_program(p, bpf_get_current_task_btf());
}

SEC("lsm/inode_unlink")
int BPF_PROG(self_unlink, struct inode *dir, struct dentry *d, int ret)
{
	return ret ? ret : deny_unlink(dir, bpf_get_current_task_btf());
}

SEC("lsm/inode_rename")
int BPF_PROG(self_rename, struct inode *from, struct dentry *what, struct inode *to,
	     struct dentry *over, int ret)
{
	return ret ? ret : deny_rename(from, what, to, bpf_get_current_task_btf());
}

SEC("iter/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *t = ctx->task;

	return t ? on_snapshot(seq, t) : 0; /* NULL: the walk is over */
}

#define VERB(name, body)                      \
	SEC("syscall")                        \
	int verb_##name(void *ctx)            \
	{                                     \
		struct verb_args *a = args(); \
		long err = 0;                 \
                                              \
		if (!a)                       \
			return -EINVAL;       \
		bpf_rcu_read_lock();          \
		body;                         \
		bpf_rcu_read_unlock();        \
		return err;                   \
	}

VERB(create, err = create(a))
VERB(end, err = end(a))
VERB(sentence, sentence(a))
VERB(settle, err = settle(a))
VERB(release, err = release(a))
VERB(protect, err = protect(a))
VERB(mark, err = mark(a))
VERB(whois, err = whois(a))
VERB(reconcile, reconcile(a))
VERB(terms, err = set_terms(a))
VERB(enter, err = enter_stranger(a))
VERB(adopt, err = adopt_all(a))
VERB(follow, move_all(a, true))
VERB(move, err = move_one(a))
VERB(dissolve, err = dissolve(a))
VERB(carry, carry_all(a))
VERB(carry_dead, err = carry_dead(a))
