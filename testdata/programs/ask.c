/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask COMMAND [ARG...]: a system command in a child, which has to succeed: it asks
 * another daemon for something. This process only holds.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	int status;

	begin(argc, argv);
	if (argc < 2) {
		fprintf(stderr, "ask COMMAND [ARG...]\n");
		return 2;
	}
	pid_t child = forked();

	if (child == 0) {
		close(marker); /* the process that it asks for opens it anew */
		execvp(argv[1], argv + 1);
		die("execvp %s", argv[1]);
	}
	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	if (status) {
		fprintf(stderr, "%s: status %#x\n", argv[1], status);
		return 1;
	}
	say("ready");
	hold();
}
