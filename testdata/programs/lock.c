/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock DIR: a child that holds DIR/flock by flock(2) and DIR/posix by fcntl(2), and has
 * created DIR/index.lock.
 */
#include "lngtest.h"

#include <sys/file.h>

static int made(const char *dir, const char *name, int flags)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);

	if (fd < 0)
		die("open %s", path);
	return fd;
}

int main(int argc, char **argv)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	begin(argc, argv);
	if (argc != 2) {
		fprintf(stderr, "lock DIR\n");
		return 2;
	}
	pid_t creator = getpid();

	if (forked() != 0)
		hold();
	setsid();
	if (flock(made(argv[1], "flock", 0), LOCK_EX | LOCK_NB) ||
	    fcntl(made(argv[1], "posix", 0), F_SETLK, &whole))
		die("lock");
	made(argv[1], "index.lock", O_EXCL);
	say("ready");
	rest(creator);
}
