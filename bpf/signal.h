/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sending signals from process context. Never from a timer or a workqueue: on x86 the
 * kernel asks nmi_uaccess_okay(), which is true there only by chance.
 */
#ifndef LINEAGE_SIGNAL_H
#define LINEAGE_SIGNAL_H

#include "kfuncs.h"

#define __arg_trusted __attribute__((btf_decl_tag("arg:trusted")))

/*
 * For a group whose leader called pthread_exit: the leader is PF_EXITING and refuses
 * signals, but any living thread takes one.
 */
static inline int signal_threads(struct task_struct *leader, int sig)
{
	struct task_struct *t;
	int err = -ESRCH;

	bpf_rcu_read_lock();
	for_each_task(t, leader, BPF_TASK_ITER_PROC_THREADS) {
		struct task_struct *ref;

		if (t->flags & PF_EXITING)
			continue;
		ref = bpf_task_acquire(t);
		if (!ref)
			continue;
		err = bpf_send_signal_task(ref, sig, PIDTYPE_TGID, 0);
		bpf_task_release(ref);
		if (!err)
			break;
	}
	bpf_rcu_read_unlock();
	return err;
}

static inline int signal_once(struct task_struct *leader, int sig)
{
	if (leader->flags & PF_EXITING)
		return signal_threads(leader, sig);
	return bpf_send_signal_task(leader, sig, PIDTYPE_TGID, 0);
}

/*
 * Signal a process by its leader. 0 or -errno. A global function, so that the verifier
 * checks it once, and not once for each path that leads here.
 */
__noinline int signal_process(struct task_struct *leader __arg_trusted, int sig)
{
	int err = signal_once(leader, sig);

	/* A stopped process acts on SIGTERM only when it runs again. */
	if (!err && sig == SIGTERM)
		signal_once(leader, SIGCONT);
	return err;
}

#endif
