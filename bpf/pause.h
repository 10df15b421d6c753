/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Pause: the members of a session are stopped until it is resumed, or ends. The word is in
 * its record. A birth reads it after the insert, as the states; a pass does for all others.
 *
 * FLAG_STOPPED notes that a stop is ours. It is set again after the signal, as a resume may
 * have taken it away in between, and then the word is read again: that resume did not see
 * the signal. What takes the flag away sends SIGCONT, and then reads the word again: a
 * new pause may have met the process still stopped. internal/protocol searches for runs in
 * which one of these is not enough.
 */
#ifndef LINEAGE_PAUSE_H
#define LINEAGE_PAUSE_H

#include "current.h"
#include "death.h"
#include "session.h"

/* Is it stopped, by whatever signal, or about to be? */
static inline bool is_stopping(struct signal_struct *s)
{
	return s->flags & SIGNAL_STOP_STOPPED || s->group_stop_count ||
	       s->shared_pending.signal.sig[0] >> (SIGSTOP - 1) & 1;
}

static inline void note_stop(struct entry *e)
{
	set_flags(e, FLAG_STOPPED);
	clear_flags(e, FLAG_RESUMED);
}

/* False: the stop is not ours, or another program takes it away. */
static inline bool take_stop(struct entry *e)
{
#ifndef BASELINE
	set_flags(e, FLAG_RESUMED);
	return clear_flags(e, FLAG_STOPPED) & FLAG_STOPPED;
#else
	if (!(e->flags & FLAG_STOPPED))
		return false;
	set_flags(e, FLAG_RESUMED);
	clear_flags(e, FLAG_STOPPED);
	return true;
#endif
}

/* After SIGSTOP was sent: must it be taken back? */
static inline bool stopped_late(struct entry *e)
{
	note_stop(e);
	return !(demanded(READ_ONCE(e->session)) & PAUSED) && take_stop(e);
}

/* Stop the current process, a member of a paused session. */
static inline void stop_current(struct entry *e)
{
	if (e->flags & FLAG_PROTECTED)
		return;
	note_stop(e);
	bpf_send_signal(SIGSTOP);
	if (stopped_late(e))
		bpf_send_signal(SIGCONT);
}

/*
 * The child of a member of a paused session stops before it runs. Below level 3 its creator
 * is stopped instead, and a pass meets the child.
 */
static inline void stop_newborn(struct entry *creator, struct task_struct *child)
{
#ifndef BASELINE
	struct entry *e;

	if (config.can_signal && bpf_send_signal_task) {
		e = entered(child->tgid, child->start_boottime);
		if (!e)
			return;
		note_stop(e);
		if (bpf_send_signal_task(child, SIGSTOP, PIDTYPE_TGID, 0))
			arm(1);
		if (stopped_late(e))
			bpf_send_signal_task(child, SIGCONT, PIDTYPE_TGID, 0);
		return;
	}
#endif
	arm(1);
	if (!config.can_signal)
		stop_current(creator);
}

/* The word of one session. A pass, which the caller makes, stops or continues its members. */
static inline long set_pause(struct verb_args *a)
{
	struct ctl *c = ctl_of(a->session);

	if (!c)
		return -ENOENT;
	if (!a->flags) {
		take_out(&c->paused);
		return 0;
	}
	if (STATE(READ_ONCE(c->status)) != STATE_ACTIVE || chain_ends(a->session))
		return -EBUSY;
	swap(&c->paused, 0, bpf_ktime_get_boot_ns());
	return 0;
}

#endif
