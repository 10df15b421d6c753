/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally FILE N: N workers, each with a 64-bit number of its own in FILE. A worker forks a
 * child, which adds 1 to the number and exits; the worker waits for it, adds 1, and begins
 * again. So a number that stands still has a worker that does not run. Instead of the usual
 * lines each worker says "worker NUMBER PID".
 */
#include "lngtest.h"
#include <sys/mman.h>

static void work(unsigned long *number)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0) {
			__atomic_add_fetch(number, 1, __ATOMIC_RELAXED);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		__atomic_add_fetch(number, 1, __ATOMIC_RELAXED);
	}
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	long n = number(argc, argv, 2, 4, 1, 64);
	int fd = open(argv[1], O_RDWR);
	unsigned long *numbers =
		mmap(NULL, n * sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || numbers == MAP_FAILED)
		die("map %s", argv[1]);
	for (long i = 0; i < n; i++)
		if (forked() == 0) {
			expire_hard();
			say("worker %ld %d", i, getpid());
			work(numbers + i);
		}
	hold();
}
