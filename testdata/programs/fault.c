/* SPDX-License-Identifier: Apache-2.0 */
/* fault: dies of its own fault ("segv"), or of a timer of the kernel ("alarm"). */
#include "lngtest.h"
#include <sys/time.h>

int main(int argc, char **argv)
{
	volatile int *volatile nowhere = NULL;
	struct itimerval soon = { .it_value.tv_usec = 1000 };

	begin(argc, argv);
	if (argc == 2 && !strcmp(argv[1], "segv"))
		*nowhere = 1;
	if (argc == 2 && !strcmp(argv[1], "alarm") && !setitimer(ITIMER_REAL, &soon, NULL))
		hold();
	die("usage: fault segv|alarm");
}
