/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gone [group]: a child exits at once and is waited for, reported as "gone PID": its
 * PID is free, as it led no group that others are still in. With "group" it led a group
 * of its own, whose number is free too. Then another child stays.
 */
#include "lngtest.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	pid_t creator = getpid();
	pid_t child = forked();

	if (child == 0)
		_exit(word(argc, argv, "group") && setpgid(0, 0));
	if (waitpid(child, NULL, 0) != child)
		die("waitpid");
	say("gone %d", child);
	if (forked() == 0)
		rest(creator);
	say("ready");
	hold();
}
