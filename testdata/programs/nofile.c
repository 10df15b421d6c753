/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nofile memfd|deleted: a child that runs a copy of this program without a name: from a
 * memfd, or from a file that is unlinked.
 */
#include "lngtest.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
	char path[] = "/tmp/lngtest-nofile-XXXXXX", from[12], number[12], name[64];
	struct stat st;

	begin(argc, argv);
	pid_t creator = getpid();

	if (forked() != 0) {
		say("ready");
		hold();
	}
	setsid();
	int in = open(self, O_RDONLY | O_CLOEXEC);
	int out = word(argc, argv, "memfd") ? memfd_create("lngtest", MFD_CLOEXEC) :
					      mkostemp(path, O_CLOEXEC);

	if (in < 0 || out < 0 || fstat(in, &st))
		die("open");
	for (off_t at = 0; at < st.st_size;)
		if (sendfile(out, in, &at, st.st_size - at) < 0)
			die("sendfile");
	fchmod(out, 0755);
	/* While it is open for writing it cannot be executed. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", out);
	int run = open(name, O_RDONLY | O_CLOEXEC);

	close(out);
	if (word(argc, argv, "deleted"))
		unlink(path);
	snprintf(number, sizeof(number), "%d", marker);
	snprintf(from, sizeof(from), "%d", creator);
	char *args[] = { "lngtest-rest", "--rest", number, from, NULL };

	fexecve(run, args, environ);
	die("fexecve");
}
