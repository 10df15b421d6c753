/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which file a process executes. A path does not say that: the link /proc/PID/exe shows
 * the one in the process's own mount namespace, where it may have mounted anything. And
 * mm->exe_file can be exchanged: by a process with rights in a user namespace of its own
 * (PR_SET_MM_MAP), also for another one with which it shares its memory. So it is taken
 * at the exec, and from exe_file only if no exec was seen.
 */
#ifndef LINEAGE_FILE_H
#define LINEAGE_FILE_H

#include "atomics.h"
#include <bpf/bpf_core_read.h>

static inline void identify_file(struct file_id *x, struct file *f)
{
	struct inode *i = BPF_CORE_READ(f, f_inode);

	x->inode = (u64)i;
	x->number = BPF_CORE_READ(i, i_ino);
	x->device = BPF_CORE_READ(i, i_sb, s_dev);
	x->generation = BPF_CORE_READ(i, i_generation);
}

/* By a pointer that the verifier knows: plain loads, as each exec of a member does this. */
static inline void identify_executed(struct file_id *x, struct linux_binprm *bprm)
{
	struct inode *i = bprm->file->f_inode;

	x->inode = (u64)i;
	x->number = i->i_ino;
	x->device = i->i_sb->s_dev;
	x->generation = i->i_generation;
}

/* As the process has it now. */
static inline void find_exe(struct file_id *x, struct task_struct *t)
{
	identify_file(x, BPF_CORE_READ(t, mm, exe_file));
}

/* A descriptor of the current process, which keeps the file open. */
static inline void identify_open(struct file_id *x, u32 fd)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct fdtable *fdt = BPF_CORE_READ(t, files, fdt);
	struct file *f = NULL;

	if (fd < BPF_CORE_READ(fdt, max_fds))
		bpf_probe_read_kernel(&f, sizeof(f), BPF_CORE_READ(fdt, fd) + fd);
	identify_file(x, f);
}

static inline bool is_file(const struct file_id *x, const struct file_id *y)
{
	return x->inode && x->inode == y->inode && x->number == y->number &&
	       x->device == y->device && x->generation == y->generation;
}

#endif
