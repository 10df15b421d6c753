/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Kernel functions, all weak: if code can do without one, it checks for it first. */
#ifndef LINEAGE_KFUNCS_H
#define LINEAGE_KFUNCS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task,
			     unsigned int flags) __ksym __weak;
extern struct task_struct *
bpf_iter_task_next(struct bpf_iter_task *it) __ksym __weak;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym __weak;
extern int bpf_send_signal_task(struct task_struct *task, int sig,
				enum pid_type type, u64 value) __ksym __weak;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym __weak;
extern void bpf_task_release(struct task_struct *p) __ksym __weak;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;

/* Destroyed however the loop ends. The destructor is named once more so that its type is known. */
#define for_each_task(t, in, which)                           \
	for (struct bpf_iter_task it                          \
	     __attribute__((cleanup(bpf_iter_task_destroy))), \
	     *iter = (bpf_iter_task_new(&it, in, which),      \
		      (void)bpf_iter_task_destroy, &it);      \
	     (t = bpf_iter_task_next(iter));)

/* Needs RCU. */
#define for_each_process(t) for_each_task(t, NULL, BPF_TASK_ITER_ALL_PROCS)

#endif
