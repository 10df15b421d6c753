/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bombactive [CAP [MS]]: every process forks a copy of itself each MS (60), until CAP
 * (400) were made in all; they live, in their own POSIX session. It is ready when there
 * are four: the rest comes while the test is looking.
 */
#include "lngtest.h"

#include <stdatomic.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	begin(argc, argv);
	long cap = number(argc, argv, 1, 400, 1, 1000);
	long pause = number(argc, argv, 2, 60, 1, 1000);
	atomic_long *made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		die("mmap");
	signal(SIGCHLD, SIG_IGN);
	if (forked() != 0)
		hold();
	setsid();
	expire();
	for (;;) {
		usleep(pause * 1000);
		long n = atomic_fetch_add(made, 1);

		if (n >= cap)
			hold();
		if (n == 4)
			say("ready");
		if (fork() == 0)
			expire();
	}
}
