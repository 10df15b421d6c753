/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port MS: a child that listens on a TCP port of 127.0.0.1, reported as "port N", and
 * takes MS to exit after SIGTERM. It never accepts: the kernel connects them.
 */
#include "lngtest.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static long ms;

static void leave(int sig)
{
	long long until = now() + ms * 1000000LL;

	(void)sig;
	while (now() < until)
		usleep(1000);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int on = 1;

	begin(argc, argv);
	ms = number(argc, argv, 1, 300, 0, 10000);
	pid_t creator = getpid();

	if (forked() != 0)
		hold();
	setsid();
	expire();
	signal(SIGTERM, leave);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&at, &size))
		die("listen");
	say("port %d", ntohs(at.sin_port));
	say("ready");
	rest(creator);
}
