/* SPDX-License-Identifier: Apache-2.0 */
/* bigmem [MB]: a child that has touched MB (600, at most 1024) of memory. */
#include "lngtest.h"

#include <sys/mman.h>

int main(int argc, char **argv)
{
	begin(argc, argv);
	size_t size = number(argc, argv, 1, 600, 1, 1024) << 20;
	pid_t creator = getpid();

	if (forked() != 0)
		hold();
	setsid();
	expire();
	char *memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	memset(memory, 1, size);
	say("ready");
	rest(creator);
}
