/* SPDX-License-Identifier: Apache-2.0 */
/*
 * respawnpair: two processes, each in its own POSIX session, that replace each other:
 * the one that reads the end of file from the other forks a successor. At most 2000 of
 * them.
 */
#include "lngtest.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

static atomic_long *made;

/* guard watches the other process at the end of fd, and makes another when it dies. */
__attribute__((noreturn)) static void guard(int fd)
{
	char byte;
	int pair[2];

	for (;;) {
		setsid();
		expire();
		if (fd >= 0) {
			while (read(fd, &byte, 1) < 0 && errno == EINTR)
				;
			close(fd);
		}
		if (atomic_fetch_add(made, 1) >= 2000)
			_exit(0);
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			die("socketpair");
		int child = fork() == 0;

		fd = pair[child];
		close(pair[!child]);
		if (child)
			say("member %d %d", getpid(), getppid());
	}
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (made == MAP_FAILED)
		die("mmap");
	signal(SIGCHLD, SIG_IGN);
	if (forked() == 0)
		guard(-1);
	say("ready");
	hold();
}
