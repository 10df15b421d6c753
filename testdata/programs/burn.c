/* SPDX-License-Identifier: Apache-2.0 */
/* burn CPU: keeps one CPU busy until its deadline, or until its parent is gone. */
#include "lngtest.h"

#include <sched.h>

int main(int argc, char **argv)
{
	cpu_set_t set;

	begin(argc, argv);
	CPU_ZERO(&set);
	CPU_SET(number(argc, argv, 1, 0, 0, CPU_SETSIZE - 1), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
	say("ready");
	for (pid_t parent = getppid(); getppid() == parent;)
		for (volatile int n = 0; n < 1000000; n++)
			;
	return 0;
}
