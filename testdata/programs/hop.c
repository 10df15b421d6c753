/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hop N SECONDS [DELAY_US [IDLE]]: N runners, each in its own POSIX session, fork a
 * successor and exit, without pause or DELAY_US apart, for SECONDS. No scan of
 * /proc sees one: it is gone before its directory is read. IDLE children, older than the
 * runners, do nothing: while they are signalled, the runners fork.
 */
#include "lngtest.h"

static void run(long long until, useconds_t delay)
{
	setsid();
	signal(SIGCHLD, SIG_IGN);
	while (now() < until) {
		if (delay)
			usleep(delay);
		pid_t successor = fork();

		if (successor < 0)
			say("refused %d", errno); /* the host is out of PIDs: the chain ends */
		if (successor != 0)
			break;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	long runners = number(argc, argv, 1, 8, 1, 64);
	long seconds = number(argc, argv, 2, 4, 1, lifetime());
	long delay = number(argc, argv, 3, 0, 0, 1000000);
	long idle = number(argc, argv, 4, 0, 0, 2000);
	long long until = now() + seconds * 1000000000LL;

	signal(SIGCHLD, SIG_IGN);
	for (long i = 0; i < idle; i++)
		if (forked() == 0) {
			alarm(seconds + 1);
			hold();
		}
	for (long i = 0; i < runners; i++)
		if (forked() == 0)
			run(until, delay);
	say("ready");
	alarm(seconds + 1);
	hold();
}
