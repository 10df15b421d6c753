/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threadfork [leaderless]: a worker thread forks and exits; its process lives on and is
 * the child's creator. With "leaderless" the main thread exits before the worker forks.
 */
#include "lngtest.h"

#include <pthread.h>

static pthread_t leader;
static int leaderless;

static void *fork_once(void *unused)
{
	(void)unused;
	if (leaderless && pthread_join(leader, NULL))
		die("pthread_join");
	pid_t creator = getpid();

	if (forked() == 0)
		rest(creator);
	return NULL;
}

static void *work(void *unused)
{
	pthread_t worker;

	(void)unused;
	if (pthread_create(&worker, NULL, fork_once, NULL) || pthread_join(worker, NULL))
		die("pthread");
	say("ready");
	hold();
}

int main(int argc, char **argv)
{
	pthread_t worker;

	begin(argc, argv);
	leaderless = word(argc, argv, "leaderless");
	leader = pthread_self();
	if (pthread_create(&worker, NULL, work, NULL))
		die("pthread_create");
	if (leaderless)
		pthread_exit(NULL);
	hold();
}
