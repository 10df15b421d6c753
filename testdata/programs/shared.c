/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared SOCKET: a server that not only its parent uses. It forks a worker for each
 * connection, which comes to rest and reports that to the client.
 */
#include "lngtest.h"

#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	begin(argc, argv);
	if (argc != 2 || strlen(argv[1]) >= sizeof(at.sun_path)) {
		fprintf(stderr, "shared SOCKET\n");
		return 2;
	}
	strcpy(at.sun_path, argv[1]);
	unlink(at.sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 8))
		die("listen");
	say("server %d", getpid());
	for (;;) {
		int client = accept(fd, NULL, NULL);

		if (client < 0)
			die("accept");
		if (forked() == 0) {
			if (write(client, "", 1) != 1)
				die("write");
			rest(getppid());
		}
		close(client);
	}
}
