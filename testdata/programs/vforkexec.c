/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vforkexec [window]: a child by vfork that execs; with "window" it stays where
 * it is, in its parent's memory, and the parent is blocked in vfork.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	int window = word(argc, argv, "window");
	pid_t creator = getpid();
	pid_t pid = vfork();

	if (pid < 0)
		die("vfork");
	if (pid == 0) {
		if (window) {
			expire();
			say("member %d %d", getpid(), creator);
			say("ready");
			hold();
		}
		exec_rest(creator, environ);
		_exit(127);
	}
	say("ready");
	hold();
}
