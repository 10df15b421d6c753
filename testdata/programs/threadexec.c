/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threadexec [THREADS]: one of THREADS workers execs. The kernel gives the new image
 * the leader's PID and kills the other threads: one process with the same identity, and
 * no process exit.
 */
#include "lngtest.h"

#include <pthread.h>

static void *work(void *execs)
{
	if (execs) {
		say("ready");
		exec_rest(getppid(), environ);
		die("execve");
	}
	hold();
}

int main(int argc, char **argv)
{
	pthread_t worker;

	begin(argc, argv);
	long threads = number(argc, argv, 1, 8, 1, 64);

	for (long i = 1; i <= threads; i++)
		if (pthread_create(&worker, NULL, work, i == threads ? &worker : NULL))
			die("pthread_create");
	hold();
}
