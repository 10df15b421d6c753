/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse: for benchmarks. Each line "exec COUNT PAUSE" on stdin makes it COUNT times
 * vfork, exec itself with arguments, wait for the child, and sleep for PAUSE us. It
 * answers "exec COUNT NS", the pauses not counted, and ends with its stdin. "deep COUNT 0"
 * makes it the last of COUNT descendants, whose ancestors all wait. "signal COUNT PAUSE"
 * makes it send itself SIGUSR1, and "ask" SIGTERM, which it handles.
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

/*
 * Down to the last of the descendants. Each is a fresh image: what a fork copies
 * for each ancestor that lives on grows with their number.
 */
static void deepen(long count, long left)
{
	char of[24], more[24];

	if (left == 0) {
		say("deep %ld 0", count);
		return;
	}
	if (forked() != 0)
		hold();
	snprintf(of, sizeof(of), "%ld", count);
	snprintf(more, sizeof(more), "%ld", left - 1);
	char *deeper[] = { "lngtest-pulse", "--deep", of, more, NULL };

	execve(self, deeper, environ);
	die("exec");
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
	if (argc == 4 && !strcmp(argv[1], "--deep"))
		deepen(atol(argv[2]), atol(argv[3]));
	else
		say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		long long took = 0;

		if (sscanf(line, "%7s %ld %ld", kind, &count, &pause) != 3 || count > 1000000)
			die("what is %s", line);
		if (!strcmp(kind, "deep")) {
			deepen(count, count);
			continue;
		}
		for (long i = 0; i < count; i++) {
			long long began = now();

			if (!strcmp(kind, "signal"))
				kill(getpid(), SIGUSR1);
			else if (!strcmp(kind, "ask"))
				kill(getpid(), SIGTERM);
			else
				run();
			took += now() - began;
			if (pause)
				usleep(pause);
		}
		say("%s %ld %lld", kind, count, took);
	}
	return 0;
}
