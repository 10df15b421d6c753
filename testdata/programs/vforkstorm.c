/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vforkstorm RATE|max SECONDS [THREADS [FORKS]]: THREADS threads vfork and
 * _exit, RATE times a second in all or as often as they can. Bounded by SECONDS
 * (at most 60) and by FORKS (4,000,000). Its last line is "storm FORKS
 * MILLISECONDS FAILED"; then it stays until its deadline, so that its session
 * can be read.
 */
#include "lngtest.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_FORKS 4000000
#define BEHIND 100000000 /* ns that a thread catches up, so that the mean rate is RATE */

static atomic_long forks, failed;
static long most;
static long long start, until;
static long interval; /* ns between two forks of one thread, 0: none */

static void *storm(void *unused)
{
	long long next = start;

	(void)unused;
	while (atomic_load_explicit(&forks, memory_order_relaxed) < most) {
		long long t = now();

		if (t >= until)
			break;
		if (interval) {
			if (next < t - BEHIND)
				next = t;
			if (t < next) {
				struct timespec wait = { .tv_nsec = next - t };

				nanosleep(&wait, NULL);
			}
			next += interval;
		}
		pid_t pid = vfork();

		if (pid == 0)
			_exit(0);
		if (pid < 0) {
			atomic_fetch_add(&failed, 1);
			usleep(1000);
			continue;
		}
		atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t workers[64];

	begin(argc, argv);
	long rate = word(argc, argv, "max") ? 0 : number(argc, argv, 1, 1000, 1, 1000000);
	long seconds = number(argc, argv, 2, 1, 1, 60);
	long threads = number(argc, argv, 3, 2, 1, 64);

	most = number(argc, argv, 4, MAX_FORKS, 1, MAX_FORKS);

	alarm(seconds + 60);
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps: waiting would halve the rate */
	if (rate)
		interval = threads * 1000000000L / rate;
	say("ready");
	start = now();
	until = start + seconds * 1000000000LL;
	for (long i = 0; i < threads; i++)
		if (pthread_create(&workers[i], NULL, storm, NULL))
			die("pthread_create");
	for (long i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	say("storm %ld %lld %ld", forks, (now() - start) / 1000000, failed);
	expire();
	hold();
}
