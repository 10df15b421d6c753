/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every test program shares: a marker, a deadline and output lines.
 *
 * The marker is a FIFO, named by LNGTEST_MARKER, whose read end the driver holds. A
 * program opens it for writing and never closes it. So every process that descends from
 * it holds it too, whatever it does to its session, its environment or its name. The
 * driver sees the end of file when the last one is gone. The kernel counts the writers,
 * while a scan misses processes that fork faster than it reads. Without LNGTEST_MARKER
 * the lines go to stdout.
 *
 * Lines: "member PID CREATOR" from a process that has come to rest, "ready" when
 * everything that the program promises is in place.
 *
 * The deadline is LNGTEST_SECONDS (30 by default) from the start of the process. A
 * forked child has no alarm and no timer, so it has to call expire.
 */
#ifndef LNGTEST_H
#define LNGTEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int marker = STDOUT_FILENO;
static char self[PATH_MAX];

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *what, ...)
{
	va_list args;

	va_start(args, what);
	vfprintf(stderr, what, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

/* say writes one line to the marker, in one write: lines never mix. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
	char line[256];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0 || n > (int)sizeof(line) - 2)
		return;
	line[n] = '\n';
	if (write(marker, line, n + 1) < 0)
		return; /* the driver is gone: there is no reader */
}

static inline long lifetime(void)
{
	const char *seconds = getenv("LNGTEST_SECONDS");

	return seconds ? atoi(seconds) : 30;
}

static inline void expire(void)
{
	alarm(lifetime());
}

/* expire_hard is expire for processes that no alarm reaches: stopped, traced or frozen. */
static inline void expire_hard(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	struct itimerspec deadline = { .it_value.tv_sec = lifetime() };
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &deadline, NULL))
		die("timer");
}

__attribute__((noreturn)) static inline void hold(void)
{
	for (;;)
		pause();
}

/* rest makes the calling process, made by creator, a member that waits. */
__attribute__((noreturn)) static inline void rest(pid_t creator)
{
	expire();
	say("member %d %d", getpid(), creator);
	hold();
}

/*
 * exec_rest replaces the calling process by a fresh image of this program that
 * rests. It uses only async-signal-safe calls after the arguments are made, and
 * returns only if the exec failed.
 */
static inline void exec_rest(pid_t creator, char *const envp[])
{
	char fd[12], from[12];

	snprintf(fd, sizeof(fd), "%d", marker);
	snprintf(from, sizeof(from), "%d", creator);
	char *argv[] = { "lngtest-rest", "--rest", fd, from, NULL };

	execve(self, argv, envp);
}

/* begin opens the marker and starts the deadline. It is every main's first call. */
static inline void begin(int argc, char **argv)
{
	const char *path = getenv("LNGTEST_MARKER");

	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && !strcmp(argv[1], "--rest")) {
		marker = atoi(argv[2]);
		rest(atoi(argv[3]));
	}
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("readlink /proc/self/exe");
	if (path) {
		marker = open(path, O_WRONLY);
		if (marker < 0)
			die("open %s", path);
	}
	expire();
}

/* number reads argument i, which must be in [low, high]; fallback if it is absent. */
static inline long number(int argc, char **argv, int i, long fallback, long low, long high)
{
	char *end;

	if (i >= argc)
		return fallback;
	long value = strtol(argv[i], &end, 10);

	if (*end || value < low || value > high) {
		fprintf(stderr, "argument %d: want a number from %ld to %ld, not %s\n", i, low,
			high, argv[i]);
		exit(2);
	}
	return value;
}

/* word tells whether one of the arguments is w. */
static inline int word(int argc, char **argv, const char *w)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], w))
			return 1;
	return 0;
}

static inline pid_t forked(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	return pid;
}

/* now is CLOCK_MONOTONIC in nanoseconds. */
static inline long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/*
 * forked_as forks a child that has the PID, which must be free, or become so within 8 s:
 * PID 1 may reap late.
 */
static inline pid_t forked_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (unsigned long)&pid,
		.set_tid_size = 1,
	};
	long long until = now() + 8000000000LL;
	long child;

	do {
		child = syscall(SYS_clone3, &args, sizeof(args));
	} while (child < 0 && errno == EEXIST && now() < until && !usleep(2000));
	if (child < 0)
		die("clone3 set_tid %d", pid);
	return child;
}

#endif
