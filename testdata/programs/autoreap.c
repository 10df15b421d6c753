/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autoreap: children by clone3(CLONE_AUTOREAP), which leave no zombie (Linux 7.1; "lacks"
 * without it). One exits, one dies as its pidfd is closed ("killed PID"), one waits, and one
 * calls setsid and exits, whose child waits.
 */
#include "lngtest.h"

#define AUTOREAP (1ULL << 34) /* as in linux/sched.h of 7.1 */
#define NNP (1ULL << 35)
#define AUTOKILL (1ULL << 36)

static pid_t cloned(unsigned long long flags, int *pidfd)
{
	struct clone_args args = { .flags = AUTOREAP | flags, .pidfd = (unsigned long)pidfd };

	return syscall(SYS_clone3, &args, sizeof(args));
}

/* gone waits until the PID is free: a zombie has it still. */
static void gone(pid_t pid)
{
	while (!kill(pid, 0))
		usleep(1000);
	if (waitpid(-1, NULL, __WALL) != -1 || errno != ECHILD)
		die("waitpid");
}

int main(int argc, char **argv)
{
	int fd;

	begin(argc, argv);
	pid_t creator = getpid(), pid = cloned(0, NULL);

	if (pid == 0)
		_exit(0);
	say(pid < 0 ? "lacks" : "has");
	if (pid < 0)
		hold();
	gone(pid);
	if (cloned(CLONE_PARENT, NULL) != -1 || errno != EINVAL)
		die("CLONE_PARENT");
	pid = cloned(AUTOKILL | NNP | CLONE_PIDFD, &fd);
	if (pid == 0)
		rest(creator);
	if (pid < 0 || close(fd))
		die("CLONE_PIDFD_AUTOKILL");
	gone(pid);
	say("killed %d", pid);
	for (int sets = 0; sets < 2; sets++) {
		if (cloned(0, NULL))
			continue;
		if (sets && (setsid() < 0 || cloned(0, NULL)))
			_exit(0);
		rest(creator);
	}
	say("ready");
	hold();
}
