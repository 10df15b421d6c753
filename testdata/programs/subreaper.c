/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subreaper: a child in its own POSIX session is a subreaper. The orphan of a double
 * fork below it becomes the subreaper's child, not the child of the next one above.
 */
#include "lngtest.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
	begin(argc, argv);
	if (forked() != 0)
		hold();
	setsid();
	expire();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		die("prctl");
	pid_t reaper = getpid(), middle = forked();

	if (middle == 0) {
		pid_t creator = getpid();

		if (forked() != 0)
			_exit(0);
		while (getppid() != reaper) /* at rest means: reparented */
			usleep(1000);
		rest(creator);
	}
	if (waitpid(middle, NULL, 0) != middle)
		die("waitpid");
	say("ready");
	hold();
}
