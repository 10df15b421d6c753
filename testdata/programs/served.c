/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served SOCKET [start]: has a worker of the server at SOCKET (shared.c), and
 * holds. With "start" the server is a child of this process that leads its own
 * POSIX session.
 */
#include "lngtest.h"

#include <sys/socket.h>
#include <sys/un.h>

static void serve(char *at)
{
	char path[PATH_MAX + 16];
	char *args[] = { "lngtest-shared", at, NULL };

	*strrchr(self, '/') = 0;
	snprintf(path, sizeof(path), "%s/lngtest-shared", self);
	setsid();
	int null = open("/dev/null", O_RDWR); /* it outlives the reader of our output */

	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		die("/dev/null");
	execv(path, args);
	die("execv %s", path);
}

int main(int argc, char **argv)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char byte;

	begin(argc, argv);
	if (argc < 2 || strlen(argv[1]) >= sizeof(at.sun_path)) {
		fprintf(stderr, "served SOCKET [start]\n");
		return 2;
	}
	strcpy(at.sun_path, argv[1]);
	if (word(argc, argv, "start") && forked() == 0)
		serve(argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0)
		die("socket");
	while (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		usleep(1000); /* until the deadline */
	if (read(fd, &byte, 1) != 1)
		die("read");
	say("ready");
	hold();
}
