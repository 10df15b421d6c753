/* SPDX-License-Identifier: Apache-2.0 */
/* ignoreterm: TERM, INT, HUP and QUIT are ignored and blocked; only KILL ends it. */
#include "lngtest.h"

int main(int argc, char **argv)
{
	static const int deaf[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	sigset_t blocked;

	begin(argc, argv);
	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(deaf) / sizeof(*deaf); i++) {
		signal(deaf[i], SIG_IGN);
		sigaddset(&blocked, deaf[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	say("member %d %d", getpid(), getppid());
	say("ready");
	hold();
}
