/* SPDX-License-Identifier: Apache-2.0 */
/*
 * under [orphan] PROGRAM [ARG...]: PROGRAM, another test program, in a child that leads
 * its own POSIX session; this process only holds. With "orphan" the child's parent
 * exits, so that the child gets another parent.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	char path[PATH_MAX + NAME_MAX];

	begin(argc, argv);
	int orphan = argc > 1 && !strcmp(argv[1], "orphan");
	char **args = argv + 1 + orphan;

	if (!*args) {
		fprintf(stderr, "under [orphan] PROGRAM [ARG...]\n");
		return 2;
	}
	*strrchr(self, '/') = 0;
	snprintf(path, sizeof(path), "%s/lngtest-%s", self, *args);
	pid_t child = forked();

	if (child == 0) {
		if (orphan && forked() != 0)
			_exit(0);
		setsid();
		execv(path, args);
		die("execv %s", path);
	}
	if (orphan && waitpid(child, NULL, 0) != child)
		die("waitpid");
	hold();
}
