/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse: for benchmarks. Each line "exec COUNT PAUSE" on stdin makes it COUNT times
 * vfork, exec itself with arguments, wait for the child, and sleep for PAUSE us. It
 * answers "exec COUNT", and ends with its stdin. "signal COUNT PAUSE" makes it send itself
 * SIGUSR1, and "ask" SIGTERM, which it handles.
 */
#include "lngtest.h"

static char *const args[] = { "lngtest-pulse", "--nothing", "--some", "argument", "--of-an",
			      "agent-like",    "--command", "line",   NULL };

static pid_t child(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execve(self, args, environ);
		_exit(1);
	}
	return pid;
}

static void handled(int sig)
{
	(void)sig;
}

static void run(void)
{
	pid_t pid = child();

	if (pid < 0)
		die("vfork");
	while (waitpid(pid, NULL, 0) < 0)
		;
}

int main(int argc, char **argv)
{
	char line[64], kind[8];
	long count, pause;

	if (argc > 1 && !strcmp(argv[1], "--nothing"))
		return 0;
	begin(argc, argv);
	signal(SIGUSR1, handled);
	signal(SIGTERM, handled);
	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%7s %ld %ld", kind, &count, &pause) != 3 || count > 1000000)
			die("what is %s", line);
		for (long i = 0; i < count; i++) {
			if (!strcmp(kind, "signal"))
				kill(getpid(), SIGUSR1);
			else if (!strcmp(kind, "ask"))
				kill(getpid(), SIGTERM);
			else
				run();
			if (pause)
				usleep(pause);
		}
		say("%s %ld", kind, count);
	}
	return 0;
}
