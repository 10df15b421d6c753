/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vforkexec [window] [stop]: a child by vfork that execs. With "window" it does not
 * exec: it stays in its parent's memory, and the parent is blocked in vfork, in state
 * D. With "stop" the child then stops itself.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	int window = word(argc, argv, "window"), stop = word(argc, argv, "stop");
	pid_t creator = getpid();
	pid_t pid = vfork();

	if (pid < 0)
		die("vfork");
	if (pid == 0) {
		if (window) {
			expire_hard();
			say("member %d %d", getpid(), creator);
			say("ready");
			if (stop)
				raise(SIGSTOP);
			hold();
		}
		exec_rest(creator, environ);
		_exit(127);
	}
	say("ready");
	hold();
}
