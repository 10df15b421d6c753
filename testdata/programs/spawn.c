/* SPDX-License-Identifier: Apache-2.0 */
/* spawn: a child by posix_spawn, in its own POSIX session. */
#include "lngtest.h"

#include <spawn.h>

int main(int argc, char **argv)
{
	char fd[12], from[12];
	posix_spawnattr_t attr;
	pid_t pid;

	begin(argc, argv);
	snprintf(fd, sizeof(fd), "%d", marker);
	snprintf(from, sizeof(from), "%d", getpid());
	char *args[] = { "lngtest-rest", "--rest", fd, from, NULL };

	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
	errno = posix_spawn(&pid, self, NULL, &attr, args, environ);
	if (errno)
		die("posix_spawn");
	say("ready");
	hold();
}
