/* SPDX-License-Identifier: Apache-2.0 */
/* grow: a child that makes another, detached one on each SIGUSR1, at most 100. */
#include "lngtest.h"

int main(int argc, char **argv)
{
	sigset_t told;
	int sig;

	begin(argc, argv);
	if (forked() != 0)
		hold();
	setsid();
	expire();
	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigprocmask(SIG_BLOCK, &told, NULL);
	say("grower %d", getpid());
	say("ready");
	for (int i = 0; i < 100; i++) {
		if (sigwait(&told, &sig))
			die("sigwait");
		pid_t creator = getpid();

		if (forked() == 0) {
			setsid();
			rest(creator);
		}
	}
	hold();
}
