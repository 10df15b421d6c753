/* SPDX-License-Identifier: Apache-2.0 */
/*
 * births FILE RATE SECONDS FORKERS: FORKERS processes fork children that exit at once, RATE a second in all,
 * every other one by vfork. After 16 children a forker forks its successor and exits. FILE is a shared map that
 * outlives all of them: a counter, and for each birth when the creator called fork and when that returned (-1:
 * refused), and two times at which the child ran. They are times of CLOCK_MONOTONIC, 0 if not reached. Bounded
 * by the size of FILE and by SECONDS (at most 60).
 */
#include "lngtest.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CHILDREN 16

struct birth {
	atomic_llong called, returned, ran, still;
};

static struct {
	atomic_llong next;
	char pad[sizeof(struct birth) - sizeof(atomic_llong)];
	struct birth births[];
} *book;
static long long most;

/* begun notes a birth that is about to be; NULL: the book is full. */
static struct birth *begun(void)
{
	long long n = atomic_fetch_add(&book->next, 1);

	if (n >= most)
		return NULL;
	book->births[n].called = now();
	return &book->births[n];
}

static void runs(struct birth *b)
{
	b->ran = now();
	b->still = now();
}

static void returns(struct birth *b, pid_t pid)
{
	b->returned = pid < 0 ? -1 : now();
}

/* brief vforks a child. */
__attribute__((noinline)) static pid_t brief(struct birth *b)
{
	pid_t pid = vfork();

	if (pid == 0) {
		runs(b);
		_exit(0);
	}
	return pid;
}

/* forks is a forker, and the successors of it. */
static void forks(long interval, long long until)
{
	for (long n = 1; now() < until; n++) {
		struct timespec wait = { .tv_nsec = interval };
		struct birth *b = begun();
		pid_t pid;

		if (!b)
			return;
		if (n > CHILDREN) {
			pid = fork();
			if (pid > 0) {
				returns(b, pid);
				_exit(0);
			}
			if (pid == 0) {
				runs(b);
				expire();
				n = 0;
				continue;
			}
		} else {
			pid = n % 2 ? brief(b) : fork();
			if (pid == 0) {
				runs(b);
				_exit(0);
			}
		}
		returns(b, pid);
		nanosleep(&wait, NULL);
	}
}

int main(int argc, char **argv)
{
	struct stat stat;

	begin(argc, argv);
	long rate = number(argc, argv, 2, 1000, 1, 100000);
	long seconds = number(argc, argv, 3, 1, 1, 60);
	long forkers = number(argc, argv, 4, 2, 1, 64);
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0 || fstat(fd, &stat))
		die("FILE");
	book = mmap(NULL, stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (book == MAP_FAILED)
		die("mmap");
	most = stat.st_size / sizeof(struct birth) - 1;
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps */
	say("ready");
	for (long n = 0; n < forkers; n++) {
		struct birth *b = begun();
		pid_t pid = b ? fork() : -1;

		if (pid == 0) {
			runs(b);
			expire();
			forks(forkers * 1000000000L / rate, now() + seconds * 1000000000LL);
			_exit(0);
		}
		if (b)
			returns(b, pid);
	}
	hold();
}
