/* SPDX-License-Identifier: Apache-2.0 */
/*
 * puppet SOCKET [FD]: does what the other end of its channel says, and nothing
 * else. The channel is a connection to the seqpacket socket SOCKET, or FD if it
 * has one already. It says "up PID" on it, then answers each command:
 *
 *   ping        "pong", or "pong term" if it got SIGTERM since
 *   fork [PID]  forks a puppet with a channel of its own, and that PID: "child PID"
 *   vfork PATH  vforks one that execs PATH: "child PID"
 *   exec PATH   execs PATH, which says "up PID" again
 *   exit        exits
 *   reap PID    waits for its child: "ok"
 *   defy        blocks SIGTERM, also in what it forks and execs: "ok"
 *   setsid      leads a POSIX session, if it may: "ok"
 *   listen      listens on a TCP port of the loopback: "ok"
 *   close       stops that: "ok"
 *   keep        gets the orphans of its descendants, and waits for all of its
 *               children when its channel is closed: "ok"
 *   crowd PATH  vforks a child that execs PATH every 20 ms until the next command,
 *               1,000 at most. Every third exits at once; of more than 60 the oldest
 *               is killed: "crowd PID..." of those that live. The command after that
 *               ends them and waits for all: "ok"
 *
 * It exits when its channel is closed.
 */
#include "lngtest.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CROWD 60 /* a multiple of 3 */
#define STARTED 1000

static struct sockaddr_un at = { .sun_family = AF_UNIX };
static char command[PATH_MAX + 16];
static int channel, keeper, listener;

/* The channel is closed: the test is over. */
__attribute__((noreturn)) static void leave(void)
{
	while (keeper && (waitpid(-1, NULL, 0) > 0 || errno == EINTR))
		;
	_exit(0);
}

__attribute__((format(printf, 1, 2))) static void answer(const char *format, ...)
{
	char text[32 + 8 * CROWD];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (send(channel, text, n, MSG_NOSIGNAL) < 0)
		leave();
}

/* next_command reads one and gives its argument. */
static char *next_command(void)
{
	ssize_t n = recv(channel, command, sizeof(command) - 1, 0);

	if (n <= 0)
		leave();
	command[n] = 0;
	char *space = strchr(command, ' ');

	if (!space)
		return "";
	*space = 0;
	return space + 1;
}

static int connected(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("connect to %s", at.sun_path);
	return fd;
}

/* serve answers on fd, which is closed on exec. */
static void serve(int fd)
{
	channel = fd;
	fcntl(channel, F_SETFD, FD_CLOEXEC);
	answer("up %d", getpid());
}

/* spawned vforks a child that execs a program. */
static pid_t spawned(char **args)
{
	pid_t pid = vfork();

	if (pid < 0)
		die("vfork");
	if (pid == 0) {
		execv(*args, args);
		_exit(127);
	}
	return pid;
}

/* have_child forks one, or vforks one that execs path. 0: with any PID. */
static void have_child(char *path, pid_t as)
{
	int fd = connected();
	char text[12];
	char *args[] = { path, at.sun_path, text, NULL };

	snprintf(text, sizeof(text), "%d", fd);
	pid_t pid = path ? spawned(args) : as ? forked_as(as) : forked();

	if (pid == 0) {
		close(channel);
		keeper = 0;
		expire();
		serve(fd);
		return;
	}
	close(fd);
	answer("child %d", pid);
}

static void become(char *path)
{
	char text[12];
	char *args[] = { path, at.sun_path, text, NULL };

	snprintf(text, sizeof(text), "%d", channel);
	fcntl(channel, F_SETFD, 0);
	execv(path, args);
	die("exec %s", path);
}

static void crowd(char *path)
{
	struct pollfd next = { .fd = channel, .events = POLLIN };
	char text[8 * CROWD] = "", in[12], out[12], byte;
	pid_t children[CROWD] = { 0 };
	int ends[2], up[2], len = 0;

	if (pipe(ends) || pipe(up) || fcntl(ends[1], F_SETFD, FD_CLOEXEC))
		die("pipe");
	snprintf(in, sizeof(in), "%d", ends[0]);
	snprintf(out, sizeof(out), "%d", up[1]);
	struct pollfd ready = { .fd = up[0], .events = POLLIN };

	for (int n = 0; n < STARTED && poll(&next, 1, 20) == 0; n++) {
		pid_t *child = &children[n % CROWD];
		char *args[] = { path, n % 3 == 2 ? "gone" : "stand", in, out, NULL };

		if (*child) {
			kill(*child, SIGKILL);
			waitpid(*child, NULL, 0);
		}
		*child = spawned(args);
		/* vfork returns during the child's exec: it reports when that is over. */
		if (poll(&ready, 1, 10000) != 1 || read(up[0], &byte, 1) != 1)
			die("start %s", path);
	}
	for (int i = 0; i < CROWD; i++)
		if (children[i] && i % 3 != 2)
			len += snprintf(text + len, sizeof(text) - len, " %d", children[i]);
	next_command();
	answer("crowd%s", text);
	next_command();
	close(ends[0]);
	close(ends[1]);
	close(up[0]);
	close(up[1]);
	for (int i = 0; i < CROWD; i++)
		if (children[i])
			waitpid(children[i], NULL, 0);
	answer("ok");
}

/* stand waits until no process holds the other end of the pipe. */
__attribute__((noreturn)) static void stand(int in)
{
	char byte;

	while (read(in, &byte, 1) > 0)
		;
	_exit(0);
}

static void begin_to_listen(void)
{
	struct sockaddr_in loopback = { .sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&loopback, sizeof(loopback)) ||
	    listen(listener, 1))
		die("listen");
}

static void obey(void)
{
	char *argument = next_command();
	const struct timespec at_once = { 0 };
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	if (!strcmp(command, "ping")) {
		answer(sigtimedwait(&term, NULL, &at_once) == SIGTERM ? "pong term" : "pong");
	} else if (!strcmp(command, "fork")) {
		have_child(NULL, atoi(argument));
	} else if (!strcmp(command, "vfork")) {
		have_child(argument, 0);
	} else if (!strcmp(command, "exec")) {
		become(argument);
	} else if (!strcmp(command, "exit")) {
		_exit(0);
	} else if (!strcmp(command, "crowd")) {
		crowd(argument);
	} else {
		if (!strcmp(command, "reap") && waitpid(atoi(argument), NULL, 0) < 0)
			die("wait for %s", argument);
		if (!strcmp(command, "defy"))
			sigprocmask(SIG_BLOCK, &term, NULL);
		if (!strcmp(command, "setsid"))
			setsid();
		if (!strcmp(command, "listen"))
			begin_to_listen();
		if (!strcmp(command, "close"))
			close(listener);
		if (!strcmp(command, "keep")) {
			keeper = 1;
			alarm(2 * lifetime()); /* it outlives the processes that it waits for */
			if (prctl(PR_SET_CHILD_SUBREAPER, 1))
				die("prctl");
		}
		answer("ok");
	}
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	if (argc < 2) {
		fprintf(stderr, "puppet SOCKET [FD]\n");
		return 2;
	}
	if (argc == 4 && write(number(argc, argv, 3, 0, 0, INT_MAX), "", 1) != 1)
		die("write");
	if (!strcmp(argv[1], "gone"))
		return 0;
	if (!strcmp(argv[1], "stand"))
		stand(number(argc, argv, 2, 0, 0, INT_MAX));
	if (strlen(argv[1]) >= sizeof(at.sun_path)) {
		fprintf(stderr, "%s: too long\n", argv[1]);
		return 2;
	}
	strcpy(at.sun_path, argv[1]);
	serve(argc > 2 ? number(argc, argv, 2, 0, 0, INT_MAX) : connected());
	for (;;)
		obey();
}
