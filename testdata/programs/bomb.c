/* SPDX-License-Identifier: Apache-2.0 */
/* bomb N: N children that live, in their own POSIX session. At most 2000. */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	long children = number(argc, argv, 1, 500, 1, 2000);
	pid_t group = forked();

	if (group == 0) {
		setsid();
		expire();
		for (long i = 0; i < children; i++)
			if (forked() == 0) {
				expire();
				hold();
			}
		say("ready");
		hold();
	}
	hold();
}
