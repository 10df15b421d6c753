/* SPDX-License-Identifier: Apache-2.0 */
/*
 * respawn: a supervisor in its own POSIX session that starts its worker again
 * whenever it exits, at most 2000 times.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	if (forked() != 0)
		hold();
	setsid();
	expire();
	for (int i = 0; i < 2000; i++) {
		pid_t supervisor = getpid(), worker = forked();

		if (worker == 0) {
			if (i == 0)
				say("ready");
			rest(supervisor);
		}
		while (waitpid(worker, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return 0;
}
