/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otheruser: two children that no longer belong to this user: one has another uid, one
 * is root of a user namespace of its own.
 */
#include "lngtest.h"

#include <sched.h>

enum { OTHER = 65533 };

int main(int argc, char **argv)
{
	begin(argc, argv);
	pid_t creator = getpid();

	if (forked() == 0) {
		setsid();
		if (setresgid(OTHER, OTHER, OTHER) || setresuid(OTHER, OTHER, OTHER))
			die("setresuid");
		say("ready");
		rest(creator);
	}
	if (forked() == 0) {
		setsid();
		if (unshare(CLONE_NEWUSER))
			die("unshare");
		say("ready");
		rest(creator);
	}
	hold();
}
