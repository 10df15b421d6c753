/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bystander COMM [PID]: an outsider. It calls itself COMM, and counts every signal that
 * it gets and can catch. For each byte on its stdin it says "signals N"; for an f it
 * forks a child that rests instead. It ends with its stdin. With PID it runs under that
 * PID and leads a process group of that number; both must be free or become so within 8
 * s (PID 1 may reap late): clone3 with set_tid, which needs CAP_CHECKPOINT_RESTORE.
 */
#include "lngtest.h"

#include <sys/prctl.h>

static volatile sig_atomic_t signals;

static void count(int sig)
{
	(void)sig;
	signals++;
}

/* take continues in a child that has the PID, and ends with it. */
static void take(pid_t pid)
{
	pid_t child = forked_as(pid);

	if (child > 0) {
		int status;

		close(marker); /* only the child counts as alive */
		waitpid(child, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	if (setpgid(0, 0))
		die("setpgid");
	expire();
}

int main(int argc, char **argv)
{
	char byte;
	ssize_t n;

	begin(argc, argv);
	if (argc < 2) {
		fprintf(stderr, "bystander COMM [PID]\n");
		return 2;
	}
	long pid = number(argc, argv, 2, 0, 2, INT_MAX);

	if (pid)
		take(pid);
	prctl(PR_SET_NAME, argv[1]);
	for (int sig = 1; sig < NSIG; sig++)
		if (sig != SIGALRM && sig != SIGCHLD)
			signal(sig, count);
	say("member %d %d", getpid(), getppid());
	say("ready");
	while ((n = read(STDIN_FILENO, &byte, 1)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && byte == 'f') {
			if (forked() == 0)
				rest(getppid());
		} else if (n > 0) {
			say("signals %d", (int)signals);
		}
	return 0;
}
