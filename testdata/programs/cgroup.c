/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup move|into|frozen|threaded DIR: a child that is in the cgroup (version 2) DIR:
 * it moved itself there; it was born there by clone3(CLONE_INTO_CGROUP); it ignores
 * SIGTERM and is frozen in DIR/sub; one of its threads is in the threaded cgroup
 * DIR/sub, so that cgroup.kill is refused. The caller made DIR and removes it and
 * DIR/sub.
 *
 * cgroup frozen1 DIR: frozen by the version 1 freezer DIR, where SIGKILL waits for the
 * thaw.
 */
#include "lngtest.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sys/stat.h>

static char dir[PATH_MAX - 64];

/* put writes a value into a file of DIR. */
__attribute__((format(printf, 2, 3))) static void put(const char *file, const char *format, ...)
{
	char path[PATH_MAX], value[32];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, n) != n)
		die("write %s to %s", value, path);
	close(fd);
}

/* wait_for reads a file of DIR until it holds text. */
static void wait_for(const char *file, const char *text)
{
	char path[PATH_MAX], got[256];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, got, sizeof(got) - 1);

		if (n < 0)
			die("read %s", path);
		close(fd);
		got[n] = 0;
		if (strstr(got, text))
			return;
		usleep(1000);
	}
}

static void make_sub(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sub", dir);
	if (mkdir(path, 0755))
		die("mkdir %s", path);
}

static pid_t born_into(void)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = fd,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (fd < 0 || pid < 0)
		die("clone3 into %s", dir);
	return pid;
}

static void *work(void *creator)
{
	put("sub/cgroup.threads", "%ld", syscall(SYS_gettid));
	say("member %d %d", getpid(), *(pid_t *)creator);
	say("ready");
	hold();
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	pid_t creator = getpid();

	if (argc != 3) {
		fprintf(stderr, "cgroup move|into|frozen|threaded|frozen1 DIR\n");
		return 2;
	}
	snprintf(dir, sizeof(dir), "%s", argv[2]);
	if (word(argc, argv, "into")) {
		if (born_into() == 0)
			rest(creator);
	} else if (word(argc, argv, "threaded")) {
		pthread_t worker;

		if (forked() != 0)
			hold();
		setsid();
		expire();
		make_sub();
		put("cgroup.procs", "0");
		put("sub/cgroup.type", "threaded");
		if (pthread_create(&worker, NULL, work, &creator))
			die("pthread_create");
		hold();
	} else {
		int version1 = word(argc, argv, "frozen1"), frozen = word(argc, argv, "frozen");

		if (frozen)
			make_sub();
		char in[32];
		int said[2];

		if (pipe2(said, O_CLOEXEC))
			die("pipe");
		pid_t child = forked();

		if (child == 0) {
			setsid();
			expire_hard();
			signal(SIGTERM, SIG_IGN);
			put(frozen ? "sub/cgroup.procs" : "cgroup.procs", "0");
			say("member %d %d", getpid(), creator);
			close(said[1]);
			hold();
		}
		/* If it is frozen sooner it cannot say anything. */
		close(said[1]);
		if (read(said[0], in, sizeof(in)) != 0)
			die("read");

		snprintf(in, sizeof(in), "%d\n", child);
		wait_for(frozen ? "sub/cgroup.procs" : "cgroup.procs", in);
		if (frozen) {
			put("sub/cgroup.freeze", "1");
			wait_for("sub/cgroup.events", "frozen 1");
		}
		if (version1) {
			put("freezer.state", "FROZEN");
			wait_for("freezer.state", "FROZEN");
		}
	}
	say("ready");
	hold();
}
