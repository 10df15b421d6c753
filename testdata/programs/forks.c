/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forks N: makes N children that wait, and says "ready". Each line that it reads names
 * a way to make a process or a thread: it tries that, and says "NAME ERRNO", 0 if it
 * succeeded. What it made exits at once. It waits for its first children only at
 * "wait".
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

static void try(const char *way)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	char *argv[] = { self, "--no-such-word", NULL };
	pthread_t thread;
	pid_t pid = -1;

	if (!strcmp(way, "posix_spawn")) {
		errno = posix_spawn(&pid, "/proc/self/no-such-file", NULL, NULL, argv, NULL);
		if (errno == ENOENT) /* it forked, and could do nothing else */
			errno = 0;
		say("%s %d", way, errno);
		return;
	}
	if (!strcmp(way, "wait")) {
		while (wait(NULL) > 0)
			;
		say("%s 0", way);
		return;
	}
	if (!strcmp(way, "thread")) {
		errno = pthread_create(&thread, NULL, nothing, NULL);
		if (!errno)
			pthread_join(thread, NULL);
		say("%s %d", way, errno);
		return;
	}
	if (!strcmp(way, "fork"))
		pid = fork();
	else if (!strcmp(way, "vfork"))
		pid = vfork();
	else if (!strcmp(way, "clone3"))
		pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	ended(way, pid);
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
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		try(line);
	}
	return 0;
}
