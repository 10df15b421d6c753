/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd: for benchmarks. Each line "N" on stdin makes it fork N children that wait until
 * their deadline and hold the marker; it answers "crowd N". When its stdin ends the first
 * process exits, and leaves the children alone.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	char line[32];

	begin(argc, argv);
	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		long n = atol(line);

		if (n < 0 || n > 100000)
			die("%ld children", n);
		for (long i = 0; i < n; i++)
			if (forked() == 0) {
				close(STDIN_FILENO);
				expire();
				hold();
			}
		say("crowd %ld", n);
	}
	_exit(0); /* a stream that was read to its end has nothing left to flush */
}
