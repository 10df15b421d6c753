/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkers THREADS SECONDS [DELAY_US]: THREADS threads fork all the time, with pauses of
 * DELAY_US. Half of the children fork one child of their own; all of them live for
 * about ten pauses. For adoption: a process that still holds the marker in the end was
 * missed.
 */
#include "lngtest.h"
#include <pthread.h>

static long long until;
static useconds_t delay;

static void *forker(void *arg)
{
	for (long n = (long)arg; now() < until; n++) {
		if (fork() == 0) {
			if (n % 2 && fork() == 0)
				setsid();
			usleep(10 * delay);
			_exit(0);
		}
		usleep(delay);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	long threads = number(argc, argv, 1, 50, 1, 100);
	long seconds = number(argc, argv, 2, 10, 1, lifetime());
	pthread_t t;

	delay = number(argc, argv, 3, 100000, 1000, 1000000);
	until = now() + seconds * 1000000000LL;
	signal(SIGCHLD, SIG_IGN);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&t, NULL, forker, (void *)i))
			return 1;
	usleep(5 * delay); /* there are children of every age */
	say("ready");
	alarm(seconds + 1);
	hold();
}
