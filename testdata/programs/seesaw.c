/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seesaw SECONDS: a runner that forks a successor and exits, without pause, for
 * SECONDS. PIDs alternate between the lower and the upper half; the first process exits
 * at once. A walk in the order of PIDs may not meet any runner. It needs clone3 with
 * set_tid, and so CAP_CHECKPOINT_RESTORE.
 */
#include "lngtest.h"

#include <linux/sched.h>

static pid_t pid_max(void)
{
	FILE *f = fopen("/proc/sys/kernel/pid_max", "r");
	int n;

	if (!f || fscanf(f, "%d", &n) != 1)
		die("pid_max");
	fclose(f);
	return n;
}

/* fork_as gives the child the first free PID after *last, between low and high. */
static pid_t fork_as(pid_t *last, pid_t low, pid_t high)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (unsigned long)last,
		.set_tid_size = 1,
	};
	long child;

	do {
		*last = *last + 1 < high ? *last + 1 : low;
		child = syscall(SYS_clone3, &args, sizeof(args));
	} while (child < 0 && errno == EEXIST);
	if (child < 0)
		die("clone3 set_tid %d", *last);
	return child;
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	long seconds = number(argc, argv, 1, 4, 1, lifetime());
	long long until = now() + seconds * 1000000000LL;
	pid_t most = pid_max(), half = most / 2, low = 300, lower = low, upper = half;

	say("ready");
	while (now() < until)
		if (fork_as(&lower, low, half) || fork_as(&upper, half, most))
			break;
	_exit(0);
}
