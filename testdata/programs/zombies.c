/* SPDX-License-Identifier: Apache-2.0 */
/* zombies N: N dead children that are never waited for. At most 2000. */
#include "lngtest.h"

int main(int argc, char **argv)
{
	siginfo_t info;

	begin(argc, argv);
	long children = number(argc, argv, 1, 10, 1, 2000);

	for (long i = 0; i < children; i++) {
		pid_t pid = forked();

		if (pid == 0)
			_exit(0);
		if (waitid(P_PID, pid, &info, WEXITED | WNOWAIT)) /* dead, not reaped */
			die("waitid");
	}
	say("ready");
	hold();
}
