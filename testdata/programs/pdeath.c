/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pdeath: a thread forks a child that wants SIGKILL when its parent dies, which is the
 * thread for this purpose. A line on stdin ends the thread; the process lives on.
 */
#include "lngtest.h"

#include <pthread.h>
#include <sys/prctl.h>

static void *fork_once(void *unused)
{
	pid_t creator = getpid();

	(void)unused;
	if (forked() == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL))
			die("prctl");
		rest(creator);
	}
	getchar();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t worker;

	begin(argc, argv);
	if (pthread_create(&worker, NULL, fork_once, NULL) || pthread_join(worker, NULL))
		die("pthread");
	hold();
}
