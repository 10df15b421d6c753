/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd [SECONDS]: for benchmarks. Each line "N" on stdin makes it fork N children that
 * wait until their deadline and hold the marker; it answers "crowd N". With SECONDS the
 * children are a storm: each leads a POSIX session of its own. When all are there, each
 * forks for that long, without pause, children that exit at once. When its stdin ends
 * the first process exits, and leaves the children alone.
 */
#include "lngtest.h"

/* storm begins when the write end of begun is closed. */
__attribute__((noreturn)) static void storm(long seconds, const int begun[2])
{
	char byte;

	setsid();
	alarm(seconds);
	close(begun[1]);
	if (read(begun[0], &byte, 1))
		_exit(1);
	for (;;)
		if (fork() == 0)
			_exit(0);
		else
			wait(NULL);
}

int main(int argc, char **argv)
{
	char line[32];
	int begun[2];

	begin(argc, argv);
	long seconds = number(argc, argv, 1, 0, 1, 60);

	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		long n = atol(line);

		if (n < 0 || n > 100000)
			die("%ld children", n);
		if (pipe(begun))
			die("pipe");
		for (long i = 0; i < n; i++)
			if (forked() == 0) {
				close(STDIN_FILENO);
				if (seconds)
					storm(seconds, begun);
				expire();
				hold();
			}
		close(begun[0]);
		close(begun[1]);
		say("crowd %ld", n);
	}
	_exit(0); /* a stream that was read to its end has nothing left to flush */
}
