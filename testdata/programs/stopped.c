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
		setsid();
		expire_hard();
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
