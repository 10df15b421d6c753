/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdpipe [await]: leaves a child behind that holds its stdout, and exits 0; with
 * "await" not before it gets SIGUSR1. A process that reads that stdout up to the end of
 * file waits for the child.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	pid_t creator = getpid();
	sigset_t told;
	int sig;

	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigprocmask(SIG_BLOCK, &told, NULL);
	if (forked() == 0) {
		setsid();
		rest(creator);
	}
	say("ready");
	if (word(argc, argv, "await"))
		sigwait(&told, &sig);
	return 0;
}
