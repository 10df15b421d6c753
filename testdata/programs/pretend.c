/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pretend HOW PATH [COMMAND...]: a child that makes /proc/PID/exe show PATH, though it
 * executes this file; then COMMAND with its PID as last argument. HOW:
 *   mount     an exec where a tmpfs is mounted over the directory, in namespaces of its own
 *   map       PR_SET_MM_MAP in a user namespace of its own
 *   share     the same by a child in a user namespace that shares its memory
 *   exec      an exec of PATH, so it is no pretence
 */
#include "lngtest.h"

#include <libgen.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <linux/prctl.h>

static const char *path;
static char stack[64 << 10] __attribute__((aligned(16)));

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die("write %s", file);
	close(fd);
}

static void enter(int flags)
{
	char map[64], groups[64];

	snprintf(map, sizeof(map), "0 %d 1", getuid());
	snprintf(groups, sizeof(groups), "0 %d 1", getgid());
	if (unshare(CLONE_NEWUSER | flags))
		die("unshare");
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", map);
	put("/proc/self/gid_map", groups);
}

/* The file is unmapped: pages of the same content take the place of its own. */
static void unmap(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from[16], to[16];
	int may[16], n = 0;
	char line[512], r, w, x;

	if (!maps)
		die("open maps");
	while (n < 16 && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, self) ||
		    sscanf(line, "%lx-%lx %c%c%c", &from[n], &to[n], &r, &w, &x) != 5)
			continue;
		may[n] = (r == 'r' ? PROT_READ : 0) | (w == 'w' ? PROT_WRITE : 0) |
			 (x == 'x' ? PROT_EXEC : 0);
		n++;
	}
	fclose(maps);
	for (int i = 0; i < n; i++) {
		unsigned long size = to[i] - from[i];
		char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (copy == MAP_FAILED)
			die("mmap");
		memcpy(copy, (void *)from[i], size);
		if (mprotect(copy, size, may[i]) ||
		    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from[i]) ==
			    MAP_FAILED)
			die("mremap");
	}
}

/* The values that are there already, from /proc/self/stat, with another file. */
static int map(void *arg)
{
	struct prctl_mm_map m = {};
	char text[1024], *at;
	unsigned long v[53] = {};
	int fd = open("/proc/self/stat", O_RDONLY), i = 3;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	(void)arg;
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	at = strrchr(text, ')');
	for (at = strtok(at ? at + 2 : text, " "); at && i < 53; at = strtok(NULL, " "))
		v[i++] = strtoul(at, NULL, 10);
	m.start_code = v[26];
	m.end_code = v[27];
	m.start_stack = v[28];
	m.start_data = v[45];
	m.end_data = v[46];
	m.start_brk = v[47];
	m.brk = (unsigned long)sbrk(0);
	m.arg_start = v[48];
	m.arg_end = v[49];
	m.env_start = v[50];
	m.env_end = v[51];
	m.exe_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof(m), 0))
		die("PR_SET_MM_MAP");
	close(m.exe_fd);
	return 0;
}

static void copy_self(void)
{
	int from = open(self, O_RDONLY), to;
	struct stat st;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dirname(strdup(path)), "tmpfs", 0, NULL))
		die("mount");
	to = open(path, O_WRONLY | O_CREAT, 0755);
	if (from < 0 || to < 0 || fstat(from, &st) ||
	    sendfile(to, from, NULL, st.st_size) != st.st_size)
		die("copy to %s", path);
	close(from);
	close(to);
}

/* Run the command and rest. */
static void ask(char **command)
{
	char pid[16], *argv[16] = {};
	int n = 0;

	for (; command[n] && n < 14; n++)
		argv[n] = command[n];
	snprintf(pid, sizeof(pid), "%d", getpid());
	argv[n] = pid;
	if (n > 0) {
		pid_t child = forked();

		if (child == 0) {
			close(marker);
			execv(argv[0], argv);
			die("execv %s", argv[0]);
		}
		waitpid(child, NULL, 0);
	}
	say("ready");
	rest(getppid());
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--ask")) {
		marker = atoi(argv[2]);
		ask(argv + 3);
	}
	begin(argc, argv);
	if (argc < 3) {
		fprintf(stderr, "pretend HOW PATH [COMMAND...]\n");
		return 2;
	}
	path = argv[2];
	if (forked() != 0)
		hold();
	expire();
	if (word(2, argv, "map") || word(2, argv, "share"))
		unmap();
	if (word(2, argv, "map")) {
		enter(0);
		map(NULL);
	} else if (word(2, argv, "share")) {
		pid_t child = clone(map, stack + sizeof(stack),
				    CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);

		if (child < 0 || waitpid(child, NULL, 0) != child)
			die("clone");
	} else {
		char fd[12], *again[20] = { "pretend", "--ask", fd };

		snprintf(fd, sizeof(fd), "%d", marker);
		for (int i = 3; i < argc && i < 19; i++)
			again[i] = argv[i];
		if (word(2, argv, "mount")) {
			enter(CLONE_NEWNS);
			copy_self();
		}
		execv(path, again);
		die("exec %s", path);
	}
	ask(argv + 3);
}
