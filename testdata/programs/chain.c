/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain [N]: each process forks one copy of itself, a millisecond later, and
 * waits for it; N (300) in all. It is ready when ten are there.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	long links = number(argc, argv, 1, 300, 11, 2000);

	for (long i = 0; i < links; i++) {
		pid_t child = forked();

		if (child > 0) {
			while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
				;
			hold();
		}
		expire();
		if (i == 10)
			say("ready");
		usleep(1000);
	}
	hold();
}
