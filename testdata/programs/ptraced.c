/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptraced: a tracer that ignores SIGTERM and, in a POSIX session of its own, its
 * tracee in ptrace-stop.
 */
#include "lngtest.h"

#include <sys/ptrace.h>

int main(int argc, char **argv)
{
	int status;

	begin(argc, argv);
	if (forked() != 0)
		hold();
	setsid();
	expire();
	signal(SIGTERM, SIG_IGN);
	pid_t tracer = getpid(), tracee = forked();

	if (tracee == 0) {
		setsid();
		expire_hard();
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			die("ptrace");
		say("member %d %d", getpid(), tracer);
		raise(SIGSTOP);
		hold();
	}
	if (waitpid(tracee, &status, 0) != tracee || !WIFSTOPPED(status)) {
		fprintf(stderr, "the tracee did not stop\n");
		return 1;
	}
	say("ready");
	hold();
}
