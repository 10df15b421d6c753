/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptracedthreads: every way in which the kernel tells of a death more than once.
 * A process whose four threads, the leader second, exit one by one under a tracer
 * that is not its parent; and a zombie whose parent exits. All are waited for.
 */
#include "lngtest.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

static int turn[2]; /* a byte for each thread that may exit */
static pthread_t before[4];

static void wait_turn(void)
{
	char byte;

	if (read(turn[0], &byte, 1) != 1)
		die("read");
}

static void *worker(void *arg)
{
	long i = (long)arg;

	/* In order: each after the previous one, with the leader second. */
	if (i > 1)
		pthread_join(before[i - 1], NULL);
	wait_turn();
	return NULL;
}

static void tracee(int ready)
{
	expire();
	before[1] = pthread_self();
	pthread_t first;

	if (pthread_create(&first, NULL, worker, (void *)0L) ||
	    pthread_create(&before[2], NULL, worker, (void *)2L) ||
	    pthread_create(&before[3], NULL, worker, (void *)3L))
		die("pthread_create");
	if (write(ready, "r", 1) != 1)
		die("write");
	pthread_join(first, NULL);
	wait_turn();
	pthread_exit(NULL);
}

static void tracer(pid_t pid)
{
	int status, threads = 0;

	expire();
	for (pid_t tid = pid; tid < pid + 64 && threads < 4; tid++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
		if (access(path, F_OK))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, 0))
			die("ptrace");
		threads++;
	}
	if (threads != 4) {
		fprintf(stderr, "%d threads found\n", threads);
		_exit(1);
	}
	for (int i = 0; i < 4; i++)
		if (write(turn[1], "t", 1) != 1)
			die("write");
	while (threads > 0)
		if (waitpid(-1, &status, __WALL) < 0)
			die("waitpid");
		else if (WIFEXITED(status) || WIFSIGNALED(status))
			threads--;
	_exit(0);
}

static void waited(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		die("waitpid %d: status %#x", pid, status);
}

int main(int argc, char **argv)
{
	int ready[2], told[2];
	char byte;
	pid_t zombie;

	begin(argc, argv);
	if (pipe(ready) || pipe(told) || pipe(turn) || prctl(PR_SET_CHILD_SUBREAPER, 1))
		die("set up");
	pid_t pid = forked();

	if (pid == 0)
		tracee(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		die("read");
	pid_t other = forked();

	if (other == 0)
		tracer(pid);
	waited(other);
	waited(pid);

	pid_t middle = forked();

	if (middle == 0) {
		siginfo_t info;

		expire();
		zombie = forked();
		if (zombie == 0)
			_exit(0);
		if (waitid(P_PID, zombie, &info, WEXITED | WNOWAIT) ||
		    write(told[1], &zombie, sizeof(zombie)) != sizeof(zombie))
			die("zombie");
		_exit(0);
	}
	waited(middle);
	if (read(told[0], &zombie, sizeof(zombie)) != sizeof(zombie))
		die("read");
	waited(zombie);
	say("ready");
	hold();
}
