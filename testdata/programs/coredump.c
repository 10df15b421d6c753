/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coredump DIR [GB]: a child in a POSIX session of its own that has reserved GB (100) of
 * memory and crashes: the kernel writes its core to DIR for seconds, a hole for nearly all of it.
 */
#include "lngtest.h"

#include <sys/mman.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	begin(argc, argv);
	if (argc < 2 || chdir(argv[1]) != 0)
		die("chdir");
	size_t size = (size_t)number(argc, argv, 2, 100, 1, 1000) << 30;
	pid_t creator = getpid();

	if (forked() != 0) {
		char go;

		if (read(STDIN_FILENO, &go, 1) < 0) /* until the root is to exit */
			die("read");
		return 0;
	}
	setsid();
	expire();
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	*memory = 1;
	if (setrlimit(RLIMIT_CORE, &all) != 0)
		die("setrlimit");
	say("member %d %d", getpid(), creator);
	abort();
}
