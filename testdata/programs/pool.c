/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool N: a bundler's service, or a browser: it daemonises, with no file of its
 * parent's but the marker, and keeps N workers, each in a group of its own; one
 * that dies is replaced, 10 N times in all. The first process waits until all
 * are there and stays.
 */
#include "lngtest.h"

static void worker(void)
{
	pid_t creator = getpid();

	if (forked() == 0) {
		setpgid(0, 0);
		rest(creator);
	}
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	long n = number(argc, argv, 1, 8, 1, 64);
	pid_t middle = forked();

	if (middle != 0) {
		if (waitpid(middle, NULL, 0) != middle)
			die("waitpid");
		say("ready");
		hold();
	}
	setsid();
	pid_t creator = getpid();

	if (forked() != 0)
		_exit(0);
	while (getppid() == creator) /* nobody's child but a reaper's */
		usleep(1000);
	if (chdir("/"))
		die("chdir /");
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	expire();
	say("service %d %d", getpid(), creator);
	for (long i = 0; i < n; i++)
		worker();
	for (long left = 10 * n; left > 0 && wait(NULL) > 0; left--)
		worker();
	hold();
}
