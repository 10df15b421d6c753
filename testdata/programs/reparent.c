/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reparent KIND: says "root PID" of a child of its own and waits for a line. Then
 * the child makes an orphan that gets other parents:
 *
 *	inside   the child is a subreaper
 *	outside  the parent of the child is
 *	dying    a subreaper below the child gets the orphan and exits: it moves twice
 *	thread   a second thread made the child a subreaper
 *	sibling  none: the thread that forked it exits, its process lives
 *
 * It says "moved PID FROM TO" for each move, as the orphan saw it, and "ready".
 */
#include "lngtest.h"

#include <pthread.h>
#include <sys/prctl.h>

static void reap_for_others(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		die("prctl");
}

static void *reaper_thread(void *arg)
{
	reap_for_others();
	return arg;
}

static void moved(pid_t from, pid_t to)
{
	while (getppid() != to)
		usleep(1000);
	say("moved %d %d %d", getpid(), from, to);
}

/* A grandchild whose parent exits; it goes to `to`, and from there to `then`. */
static void orphan(pid_t to, pid_t then)
{
	pid_t middle = forked();

	if (middle == 0) {
		pid_t creator = getpid();

		if (forked() != 0)
			_exit(0);
		expire();
		moved(creator, to);
		if (then) {
			kill(to, SIGKILL);
			moved(to, then);
		}
		say("ready");
		hold();
	}
}

static void *forking_thread(void *arg)
{
	if (forked() == 0) {
		expire();
		hold();
	}
	return arg;
}

__attribute__((noreturn)) static void root(const char *kind)
{
	pid_t me = getpid();
	pthread_t thread;

	signal(SIGCHLD, SIG_IGN); /* nobody stays a zombie */
	if (!strcmp(kind, "outside")) {
		orphan(getppid(), 0);
	} else if (!strcmp(kind, "dying")) {
		reap_for_others();
		if (forked() == 0) {
			expire();
			reap_for_others();
			orphan(getpid(), me);
			hold();
		}
	} else if (!strcmp(kind, "sibling")) {
		if (pthread_create(&thread, NULL, forking_thread, NULL))
			die("pthread_create");
		pthread_join(thread, NULL);
		say("ready");
	} else {
		if (!strcmp(kind, "inside"))
			reap_for_others();
		else if (pthread_create(&thread, NULL, reaper_thread, NULL) ||
			 pthread_join(thread, NULL))
			die("pthread");
		orphan(me, 0);
	}
	hold();
}

int main(int argc, char **argv)
{
	char line[16];
	int go[2];

	begin(argc, argv);
	if (argc != 2 || pipe(go)) {
		fprintf(stderr, "usage: reparent inside|outside|dying|thread|sibling\n");
		return 2;
	}
	if (!strcmp(argv[1], "outside"))
		reap_for_others();
	signal(SIGCHLD, SIG_IGN);
	pid_t child = forked();

	if (child == 0) {
		expire();
		close(go[1]);
		if (read(go[0], line, 1) != 1)
			return 1;
		root(argv[1]);
	}
	say("root %d", child);
	if (fgets(line, sizeof(line), stdin) && write(go[1], "g", 1) == 1)
		while (fgets(line, sizeof(line), stdin))
			;
	return 0;
}
