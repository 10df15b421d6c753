/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes N ORPHANS: an application that waits for its children late. N children exit
 * with codes of their own, and ORPHANS orphans die beside them; on SIGTERM it waits for
 * each child by its PID and exits with 0 if every code is correct. As PID 1 it does not
 * wait for the orphans. At most 2000 of each.
 */
#include "lngtest.h"

static void collect(int sig)
{
	(void)sig;
}

int main(int argc, char **argv)
{
	static pid_t children[2000];
	siginfo_t info;
	sigset_t term;
	int status, alive[2]; /* the end of this input tells a process that it is an orphan */
	char byte;

	begin(argc, argv);
	long n = number(argc, argv, 1, 100, 1, 2000);
	long orphans = number(argc, argv, 2, 500, 1, 2000);

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	signal(SIGTERM, collect); /* not ignored: PID 1 has no default action */
	for (long i = 0; i < n; i++) {
		children[i] = forked();
		if (children[i] == 0)
			_exit(i % 256);
	}
	if (pipe(alive))
		die("pipe");
	pid_t middle = forked();

	if (middle == 0) {
		for (long i = 0; i < orphans; i++)
			if (forked() == 0) {
				close(alive[1]);
				_exit(read(alive[0], &byte, 1) == 0 ? 77 : 1);
			}
		_exit(0);
	}
	close(alive[1]);
	if (waitpid(middle, &status, 0) != middle)
		die("waitpid");
	for (long i = 0; i < n; i++)
		if (waitid(P_PID, children[i], &info, WEXITED | WNOWAIT)) /* dead, not reaped */
			die("waitid");
	say("ready");
	if (sigwaitinfo(&term, &info) < 0)
		die("sigwaitinfo");
	for (long i = 0; i < n; i++)
		if (waitpid(children[i], &status, 0) != children[i] || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != i % 256)
			return 1;
	return 0;
}
