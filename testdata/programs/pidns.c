/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pidns: the init of a PID namespace, which ignores SIGTERM, and two processes
 * inside: a child of it and an orphan.
 */
#include "lngtest.h"

#include <sched.h>

static void leave(int sig)
{
	(void)sig;
	_exit(0);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	if (forked() != 0)
		hold();
	setsid();
	expire();
	if (unshare(CLONE_NEWPID))
		die("unshare");
	if (forked() != 0) /* the init: PID 1 in there */
		hold();
	signal(SIGTERM, SIG_IGN);
	signal(SIGALRM, leave); /* an init has no default actions */
	expire();
	pid_t child = forked();

	if (child == 0) {
		expire();
		hold();
	}
	pid_t middle = forked();

	if (middle == 0) {
		setsid();
		if (forked() == 0) {
			expire();
			hold();
		}
		_exit(0);
	}
	if (waitpid(middle, NULL, 0) != middle)
		die("waitpid");
	say("ready");
	for (;;)
		pause();
}
