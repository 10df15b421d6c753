/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zombieleader: the main thread calls pthread_exit, a worker lives on. The
 * process is alive, though its leader is a zombie and /proc/PID/fd is empty.
 */
#include "lngtest.h"

#include <pthread.h>

static pthread_t leader;

static void *work(void *unused)
{
	(void)unused;
	/* Join returns when the kernel has torn the leader down. */
	if (pthread_join(leader, NULL))
		die("pthread_join");
	say("member %d %d", getpid(), getppid());
	say("ready");
	hold();
}

int main(int argc, char **argv)
{
	pthread_t worker;

	begin(argc, argv);
	leader = pthread_self();
	if (pthread_create(&worker, NULL, work, NULL))
		die("pthread_create");
	pthread_exit(NULL);
}
