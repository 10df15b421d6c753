/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detach [WORD...]: a child that waits, after it has done what the words say:
 * "setpgid", "setsid", "orphan" (its creator exits), "nopdeath" (a signal at the
 * parent's death, asked for and taken back), "scrub" (zeroes over its own
 * environment, no exec), "rename" (a kernel thread's name, arguments wiped),
 * "noenv" (an exec with an empty environment).
 */
#include "lngtest.h"

#include <sys/prctl.h>

static void wipe(char **strings)
{
	for (; *strings; strings++)
		memset(*strings, 0, strlen(*strings));
}

int main(int argc, char **argv)
{
	static char *const nothing[] = { NULL };

	begin(argc, argv);
	int scrub = word(argc, argv, "scrub"), rename = word(argc, argv, "rename"),
	    noenv = word(argc, argv, "noenv");
	pid_t creator = getpid();
	pid_t child = forked();

	if (child == 0) {
		if (word(argc, argv, "setpgid") && setpgid(0, 0))
			die("setpgid");
		if (word(argc, argv, "setsid") && setsid() < 0)
			die("setsid");
		if (word(argc, argv, "orphan")) {
			creator = getpid();
			if (forked() != 0)
				_exit(0);
		}
		if (word(argc, argv, "nopdeath"))
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_PDEATHSIG, 0))
				die("prctl");
		expire();
		if (noenv) {
			exec_rest(creator, nothing);
			die("execve");
		}
		if (rename) {
			prctl(PR_SET_NAME, "kworker/0:1H");
			wipe(argv);
		}
		if (scrub)
			wipe(environ);
		say("member %d %d", getpid(), creator);
		hold();
	}
	if (word(argc, argv, "orphan") && waitpid(child, NULL, 0) != child)
		die("waitpid");
	say("ready");
	hold();
}
