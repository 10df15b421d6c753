/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dies WAY: dies in a way that takes a system call of its own. If a child or an orphan of
 * it has to die, it exits with 137 then.
 */
#include "lngtest.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

static void limited(int what)
{
	const struct rlimit one = { 1, 1 };

	if (setrlimit(what, &one))
		die("setrlimit");
}

static void forbidden(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		die("seccomp");
	syscall(SYS_getppid);
}

/* leave exits once a child of it wants, or is to get, a signal for that. */
__attribute__((noreturn)) static void leave(int traced)
{
	pid_t child = forked();
	int status;

	if (child == 0) {
		expire();
		if (traced ? ptrace(PTRACE_TRACEME, 0, NULL, NULL) :
			     prctl(PR_SET_PDEATHSIG, SIGKILL))
			die("ask for it");
		raise(SIGSTOP);
		hold();
	}
	if (waitpid(child, &status, WUNTRACED) != child ||
	    (traced && ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL)))
		die("prepare it");
	_exit(0);
}

/* alone is PID 1 of a namespace: one inside kills all others, or PID 1 exits. */
static void alone(int others)
{
	if (unshare(CLONE_NEWPID))
		die("unshare");
	if (forked() != 0)
		return;
	if (getpid() != 1)
		die("this is no namespace");
	if (forked() == 0) {
		expire();
		hold();
	}
	if (others && forked() == 0)
		_exit(kill(-1, SIGKILL));
	if (others && (wait(NULL) < 0 || wait(NULL) < 0))
		die("wait");
	_exit(0);
}

static void closed(void)
{
	int fd = -1;
	struct clone_args args = {
		.flags = 1ULL << 34 | 1ULL << 36 | CLONE_PIDFD, /* AUTOREAP, PIDFD_AUTOKILL */
		.pidfd = (unsigned long)&fd,
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (child < 0)
		die("clone3");
	if (child == 0) {
		expire();
		hold();
	}
	close(fd);
	while (kill(child, 0) == 0)
		usleep(1000);
}

int main(int argc, char **argv)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	const struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
	timer_t timer;

	begin(argc, argv);
	if (word(argc, argv, "timer") && (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
					  timer_settime(timer, 0, &soon, NULL) || pause()))
		die("timer");
	if (word(argc, argv, "cpu")) {
		limited(RLIMIT_CPU);
		for (;;)
			;
	}
	if (word(argc, argv, "fsize")) {
		limited(RLIMIT_FSIZE);
		for (int fd = open("fsize", O_CREAT | O_RDWR, 0600); write(fd, "x", 1) == 1;)
			;
	}
	if (word(argc, argv, "seccomp"))
		forbidden();
	if (word(argc, argv, "memory"))
		memset(mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0),
		       1, 64 << 20);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		die("prctl");
	if (word(argc, argv, "autokill"))
		closed();
	if ((word(argc, argv, "parent") || word(argc, argv, "tracer")) && forked() == 0)
		leave(word(argc, argv, "tracer"));
	if (word(argc, argv, "namespace") || word(argc, argv, "others"))
		alone(word(argc, argv, "others"));
	while (wait(NULL) > 0)
		;
	return 137;
}
