/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holdpipe: leaves a child behind that holds its stdout, and exits 0. Who reads
 * that stdout to its end waits for the child.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	pid_t creator = getpid();

	if (forked() == 0) {
		setsid();
		rest(creator);
	}
	say("ready");
	return 0;
}
