/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forks N: makes N children that wait, says "ready", and for each line that it
 * reads tries every way to make a process and a thread. It says "NAME ERRNO", 0
 * for what succeeded, and "done". What it made exits at once.
 */
#include "lngtest.h"

#include <linux/sched.h>
#include <pthread.h>
#include <spawn.h>

static void ended(const char *how, pid_t pid)
{
	int err = pid < 0 ? errno : 0;

	if (pid > 0)
		waitpid(pid, NULL, __WALL);
	say("%s %d", how, err);
}

static void *nothing(void *arg)
{
	return arg;
}

static void tries(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	char *argv[] = { self, "--no-such-word", NULL };
	pthread_t thread;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	ended("fork", pid);
	pid = vfork();
	if (pid == 0)
		_exit(0);
	ended("vfork", pid);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	ended("clone3", pid);
	errno = posix_spawn(&pid, "/proc/self/no-such-file", NULL, NULL, argv, NULL);
	if (errno == ENOENT) /* it forked, and that was all it could */
		errno = 0;
	say("posix_spawn %d", errno);
	errno = pthread_create(&thread, NULL, nothing, NULL);
	if (!errno)
		pthread_join(thread, NULL);
	say("thread %d", errno);
	say("done");
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	long children = number(argc, argv, 1, 0, 0, 64);
	char line[16];

	for (long i = 0; i < children; i++)
		if (forked() == 0) {
			expire();
			hold();
		}
	say("ready");
	while (fgets(line, sizeof(line), stdin))
		tries();
	return 0;
}
