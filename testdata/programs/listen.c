/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen: does what each line on stdin says, answers it, and ends with its stdin.
 *
 *   open FAMILY PROTOCOL PORT REUSE   listens on the loopback address of family 4 or 6 with
 *                         protocol tcp or mptcp; on PORT, on any (0), or without a bind (-1);
 *                         with SO_REUSEPORT if REUSE is 1: "open FD PORT", or "open -1 ERRNO"
 *   close FD              "close FD"
 *   fork                  a child that holds all sockets: "fork PID"
 *   flood COUNT           listens and closes so often: "flood COUNT"
 *   connect COUNT PAUSE   connects so often to a port of its own, closes both ends, and
 *                         sleeps for PAUSE us in between: "connect COUNT NS"
 */
#include "lngtest.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* listening returns a socket, and sets at to its address; -1 and errno on failure. */
static int listening(int family, int protocol, int port, int reuse, union address *at)
{
	socklen_t size = family == AF_INET ? sizeof(at->v4) : sizeof(at->v6);
	int fd = socket(family, SOCK_STREAM, protocol);

	memset(at, 0, sizeof(*at));
	at->any.sa_family = family;
	if (family == AF_INET) {
		at->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		at->v4.sin_port = htons(port);
	} else {
		at->v6.sin6_addr = in6addr_loopback;
		at->v6.sin6_port = htons(port);
	}
	if (fd < 0)
		return -1;
	if ((reuse && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse, sizeof(reuse))) ||
	    (port >= 0 && bind(fd, &at->any, size)) || listen(fd, 64) ||
	    getsockname(fd, &at->any, &size)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void open_one(const char *line)
{
	int family, port, reuse;
	char protocol[8];
	union address at;

	if (sscanf(line, "open %d %7s %d %d", &family, protocol, &port, &reuse) != 4)
		die("what is %s", line);
	int fd = listening(family == 4 ? AF_INET : AF_INET6,
			   strcmp(protocol, "mptcp") ? IPPROTO_TCP : IPPROTO_MPTCP, port, reuse,
			   &at);

	if (fd < 0)
		say("open -1 %d", errno);
	else /* the port is at the same place in both */
		say("open %d %d", fd, ntohs(at.v4.sin_port));
}

/* Closed by a reset, the port is free at once: no connection is left in TIME_WAIT. */
static void connect_all(long count, long pause)
{
	static int server = -1;
	static union address at;
	struct linger reset = { .l_onoff = 1 };
	long long took = 0;

	if (server < 0)
		server = listening(AF_INET, IPPROTO_TCP, 0, 0, &at);
	if (server < 0)
		die("listen");
	for (long i = 0; i < count; i++) {
		long long began = now();
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) ||
		    connect(fd, &at.any, sizeof(at.v4)))
			die("connect");
		int end = accept(server, NULL, NULL);

		if (end < 0)
			die("accept");
		close(fd);
		close(end);
		took += now() - began;
		if (pause)
			usleep(pause);
	}
	say("connect %ld %lld", count, took);
}

static void flood(long count)
{
	union address at;

	for (long i = 0; i < count; i++) {
		int fd = listening(AF_INET, IPPROTO_TCP, 0, 0, &at);

		if (fd < 0)
			die("listen");
		close(fd);
	}
	say("flood %ld", count);
}

int main(int argc, char **argv)
{
	char line[64];
	long count, pause;
	int fd;

	begin(argc, argv);
	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "open ", 5)) {
			open_one(line);
		} else if (sscanf(line, "close %d", &fd) == 1) {
			close(fd);
			say("close %d", fd);
		} else if (!strcmp(line, "fork\n")) {
			pid_t pid = forked();

			if (pid == 0) {
				expire();
				hold();
			}
			say("fork %d", pid);
		} else if (sscanf(line, "flood %ld", &count) == 1 && count <= 1000000) {
			flood(count);
		} else if (sscanf(line, "connect %ld %ld", &count, &pause) == 2 &&
			   count <= 1000000) {
			connect_all(count, pause);
		} else {
			die("what is %s", line);
		}
	}
	return 0;
}
