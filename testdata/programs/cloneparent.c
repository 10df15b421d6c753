/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cloneparent [DEPTH]: a chain of DEPTH processes, each made by the previous one with
 * clone(CLONE_PARENT): the kernel's parent of all of them is this program's own parent,
 * the creator of each is the previous one.
 */
#include "lngtest.h"

#include <sched.h>

int main(int argc, char **argv)
{
	begin(argc, argv);
	long depth = number(argc, argv, 1, 1, 1, 8);

	for (long i = 0; i < depth; i++) {
		pid_t creator = getpid();
		pid_t pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);

		if (pid < 0)
			die("clone");
		if (pid > 0)
			hold();
		expire();
		say("member %d %d", getpid(), creator);
	}
	say("ready");
	hold();
}
