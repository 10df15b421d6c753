/* SPDX-License-Identifier: Apache-2.0 */
/* slowterm SECONDS: takes SECONDS to exit after SIGTERM. */
#include "lngtest.h"

static long seconds;

static void leave(int sig)
{
	(void)sig;
	long long until = now() + seconds * 1000000000LL;

	while (now() < until)
		sleep(1);
	say("left by itself");
	_exit(0);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	seconds = number(argc, argv, 1, 1, 0, 60);
	signal(SIGTERM, leave);
	say("member %d %d", getpid(), getppid());
	say("ready");
	hold();
}
