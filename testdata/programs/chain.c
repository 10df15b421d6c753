/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain [N]: from SIGUSR1 on each process forks one copy of itself and waits for
 * it, N (300) in all.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	long links = number(argc, argv, 1, 300, 1, 5000);

	sigset_t told;
	int sig;

	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigprocmask(SIG_BLOCK, &told, NULL);
	say("ready");
	if (sigwait(&told, &sig))
		die("sigwait");
	for (long i = 0; i < links; i++) {
		pid_t child = forked();

		if (child > 0) {
			while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
				;
			hold();
		}
		expire();
	}
	hold();
}
