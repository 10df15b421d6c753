/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stopped: a child in its own POSIX session that has stopped itself. No alarm
 * reaches a stopped process, so its deadline is a timer that sends SIGKILL.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	int status;

	begin(argc, argv);
	pid_t creator = getpid();
	pid_t child = forked();

	if (child == 0) {
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
		struct itimerspec deadline = { .it_value.tv_sec = 30 };
		timer_t timer;

		setsid();
		if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
		    timer_settime(timer, 0, &deadline, NULL))
			die("timer");
		say("member %d %d", getpid(), creator);
		raise(SIGSTOP);
		hold();
	}
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) {
		fprintf(stderr, "the child did not stop\n");
		return 1;
	}
	say("ready");
	hold();
}
