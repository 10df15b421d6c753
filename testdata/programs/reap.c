/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reap [lazy] CMD...: CMD under a subreaper that waits for every orphan of its tree,
 * whatever CMD does; exits with CMD's exit code when there is no child left. With
 * "lazy" it waits for CMD only, and then for the rest: until CMD ends, orphans that die
 * stay zombies. It is not part of the workload: it holds no marker. It reaps before
 * other processes run, or a storm of forks would take all PIDs of the host.
 */
#include "lngtest.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	int lazy = argc > 1 && !strcmp(argv[1], "lazy"), status, code = 1;
	char **args = argv + 1 + lazy;

	if (!*args) {
		fprintf(stderr, "reap [lazy] CMD...\n");
		return 2;
	}
	expire();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		die("prctl");
	struct sched_param first = { .sched_priority = 1 };

	/* Children do not inherit SCHED_RR. If it is refused, nice -20 replaces it. */
	if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first))
		setpriority(PRIO_PROCESS, 0, -20);
	pid_t command = forked();

	if (command == 0) {
		execv(*args, args);
		die("execv %s", *args);
	}
	for (;;) {
		pid_t pid = waitpid(lazy ? command : -1, &status, 0);

		if (pid == command) {
			code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			lazy = 0;
		}
		if (pid < 0 && errno != EINTR)
			return code;
	}
}
