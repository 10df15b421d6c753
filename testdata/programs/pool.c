/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool N: like a bundler's service, or a browser. It daemonises, keeps no file of its
 * parent's open but the marker, and has N workers, each in a group of its own. A worker
 * that dies is replaced, 10 N times in all. The first process waits until all are there
 * and stays.
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
	while (getppid() == creator) /* until it is reparented */
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
