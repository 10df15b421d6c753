/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemonise [clear] [stay|await]: fork, setsid, fork again, chdir /: nothing that ps
 * shows connects the grandchild to its session. "clear": it execs with an empty
 * environment. The first process exits as daemon(3) does; "stay": it does not; "await":
 * not before it gets SIGUSR1.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	static char *const nothing[] = { NULL };

	begin(argc, argv);
	sigset_t told;
	int sig;

	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	sigprocmask(SIG_BLOCK, &told, NULL);
	pid_t middle = forked();

	if (middle == 0) {
		setsid();
		pid_t creator = getpid();

		if (forked() != 0)
			_exit(0);
		if (chdir("/"))
			die("chdir /");
		while (getppid() == creator) /* at rest means: reparented */
			usleep(1000);
		if (word(argc, argv, "clear")) {
			expire();
			exec_rest(creator, nothing);
			die("execve");
		}
		rest(creator);
	}
	if (waitpid(middle, NULL, 0) != middle)
		die("waitpid");
	say("ready");
	if (word(argc, argv, "stay"))
		hold();
	if (word(argc, argv, "await"))
		sigwait(&told, &sig);
	return 0;
}
