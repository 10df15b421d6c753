/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel types that the programs read, with only the fields in use.
 * preserve_access_index lets the loader relocate each access against the
 * running kernel's BTF, so order and size here do not matter.
 */
#ifndef LINEAGE_KERNEL_H
#define LINEAGE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0

#define NULL ((void *)0)

/* A function that is not inlined says so: __noinline. */
#define inline inline __attribute__((always_inline))

/* uapi/linux/bpf.h; stable */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};
enum {
	BPF_F_MMAPABLE = 1U << 10,
};
enum {
	BPF_RB_NO_WAKEUP = 1ULL << 0,
	BPF_RB_FORCE_WAKEUP = 1ULL << 1,
	BPF_RB_AVAIL_DATA = 0,
};

#define AF_INET 2
#define IPPROTO_TCP 6
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define PF_EXITING 0x00000004
#define PF_FORKNOEXEC 0x00000040
#define PF_KTHREAD 0x00200000
#define TASK_NEW 0x0800
#define SIGNAL_STOP_STOPPED 0x00000001
#define SIGNAL_GROUP_EXIT 0x00000004
#define SIGNAL_CLD_MASK \
	0x00000030 /* it goes on after a stop, which its parent is to be told */
#define PT_EXITKILL (1U << 23)
#define RLIMIT_CPU 0
#define SIG_IGN 1
#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGILL 4
#define SIGTRAP 5
#define SIGABRT 6
#define SIGBUS 7
#define SIGFPE 8
#define SIGKILL 9
#define SIGSEGV 11
#define SIGTERM 15
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGURG 23
#define SIGXCPU 24
#define SIGXFSZ 25
#define SIGWINCH 28
#define SIGSYS 31
#define SI_TIMER (-2)
#define SI_ASYNCIO (-4)
#define POLL_HUP 6 /* the last code of a file */
#define ENOENT 2
#define EPERM 1
#define EBUSY 16
#define ESRCH 3
#define EEXIST 17
#define EINVAL 22
#define ENOSPC 28
#define ELOOP 40

#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	u32 val;
} kuid_t;

struct user_namespace {
	int level; /* 0: the initial one */
};

struct cred {
	kuid_t uid;
	kuid_t suid;
	kuid_t euid;
	kuid_t fsuid;
	struct user_namespace *user_ns;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

enum pid_type {
	PIDTYPE_PID,
	PIDTYPE_TGID,
	PIDTYPE_PGID,
	PIDTYPE_SID,
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct kernel_siginfo {
	int si_code;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	struct {
		struct {
			struct {
				s64 counter;
			} utime, stime;
		} cputime_atomic;
	} cputimer; /* ns, while there is a limit */
	struct {
		unsigned long rlim_max;
	} rlim[16];
	atomic_t live;
	int nr_threads;
	struct sigpending shared_pending;
	int group_exit_code;
	int group_stop_count;
	unsigned int flags;
	struct core_state
		*core_state; /* a core dump runs; from 5.16, commit 0258b5fd7c71 */
	struct pid *pids[4];
	struct mm_struct *oom_mm; /* the OOM killer chose it */
	unsigned long maxrss; /* pages */
	unsigned long long sum_sched_runtime; /* ns, of threads already released */
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct percpu_counter {
	s64 count;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
	unsigned long env_start;
	unsigned long env_end;
	struct file *exe_file;
	struct percpu_counter rss_stat[4]; /* from 6.2, commit f1a7941243c1 */
};

struct mm_rss_stat {
	struct {
		s64 counter;
	} count[4];
};

struct mm_struct___v61 {
	struct mm_rss_stat rss_stat;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	unsigned int ptrace; /* not 0: it is traced */
	int pid;
	int tgid;
	int exit_state;
	int exit_code;
	u64 start_boottime;
	u64 self_exec_id;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct task_struct *parent; /* of one that is traced, the tracer */
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	sigset_t blocked;
	struct mm_struct *mm;
	const struct cred *cred;
	struct files_struct *files;
	struct css_set *cgroups;
	struct pid *thread_pid;
	struct sched_entity se;
	char comm[16];
};

struct task_struct___v513 { /* up to there, commit 2f064a59a11f */
	long state;
};

struct linux_binprm {
	struct file *file; /* in the end the interpreter's */
	const char *filename;
};

struct sock_common {
	unsigned short skc_family;
	u16 skc_num; /* host order */
	u32 skc_rcv_saddr;
	struct {
		u8 bytes[16];
	} skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
};

struct dentry {
	struct inode *d_inode;
};

struct bpf_map {
	u32 id;
};

enum bpf_prog_type {
	BPF_PROG_TYPE_UNSPEC,
};

struct bpf_prog {
	enum bpf_prog_type type;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

struct bpf_iter_task {
	u64 __opaque[3];
} __attribute__((aligned(8)));

struct bpf_dynptr {
	u64 __opaque[2];
} __attribute__((aligned(8)));

enum {
	BPF_TASK_ITER_ALL_PROCS,
	BPF_TASK_ITER_ALL_THREADS,
	BPF_TASK_ITER_PROC_THREADS,
};

#endif
