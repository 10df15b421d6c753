/*
 * What must happen in the end, for Spin: a test cannot see what never comes. One session
 * of three processes. make liveness runs it, with what must fail (testdata/liveness.sh). Read
 * it beside bpf/: each step that another CPU can interrupt is one statement, named after
 * its function. Left out: grace, nesting, owners, limits, PIDs that are used again.
 *
 * -DLEVEL=4, 3 or 2   the guarantee level
 * -DDAEMON            a daemon runs; -DDEAF: it only hears events, and never looks
 * -DHOST              another process of the host forks now and then
 * -DLITMUS            only the barrier of birth against sentence, with store buffers;
 *                     -DNO_BIRTH_BARRIER, -DNO_SENTENCE_BARRIER, -DNO_DOOMED: without it
 */
mtype = { ACTIVE, CONDEMNED, EMPTY };

#ifdef LITMUS

/*
 * Each CPU keeps its last store in a buffer until that is flushed, as on x86. A full
 * barrier waits for that. CPU 0 is the fork hook, CPU 1 the sentence.
 */
#define BIRTH 0
#define SENTENCE 1
bool entered, condemned; /* in memory */
bool stored[2]; /* still in the buffer of the CPU */
bool killed;
byte finished;

#define barrier(cpu) !stored[cpu]

/* birth.h */
active proctype on_fork()
{
	stored[BIRTH] = true; /* enter_child: insert */
#ifndef NO_BIRTH_BARRIER
	barrier(BIRTH); /* session_count: fetch_add */
#endif
#ifndef NO_DOOMED
	if /* doomed */
	:: condemned -> killed = true /* kill_newborn */
	:: else
	fi;
#endif
	finished++
}

/* sentence.h. The walk meets the child, which was linked before it was entered. */
active proctype end()
{
	stored[SENTENCE] = true; /* begin_end, condemn: the state */
#ifndef NO_SENTENCE_BARRIER
	barrier(SENTENCE); /* swap */
#endif
	if /* pass_all: visit, due_signal */
	:: entered -> killed = true /* signal_member */
	:: else
	fi;
	finished++
}

active proctype memory()
{
	do
	:: atomic { stored[BIRTH] -> entered = true; stored[BIRTH] = false }
	:: atomic { stored[SENTENCE] -> condemned = true; stored[SENTENCE] = false }
	:: finished == 2 && !stored[BIRTH] && !stored[SENTENCE] -> break
	od;
	assert(killed) /* else the child survives its session */
}

#else

#ifndef N
#define N 3 /* 0 is the root, each forks the next one */
#endif
#define ROOT 0

mtype status = ACTIVE; /* of the session */
byte live, forks; /* its counts */
bool linked[N], entered[N], killed[N];
bool dead[N], gone[N]; /* its last thread is in do_exit; its exit hooks have run */
bool due; /* control.due */
byte busy = 1; /* signals that may still fail */
chan events = [1] of { byte }; /* the ring: what finds no room is lost */

#define kills() (status == CONDEMNED || status == EMPTY)

/* session.h; the swap makes it one step */
#define begin_end() status = (status == ACTIVE -> CONDEMNED : status)

/*
 * sentence.h: what is due to a member (due_signal, demand, judge), and the signal. One
 * visit is one step here: only states and entries decide it, and both are read once.
 */
inline pass_all(t)
{
	do
	:: atomic { t < N && entered[t] ->
		if
		:: !entered[ROOT] -> begin_end()
		:: else
		fi;
		if /* signal_member; below level 3 user space sends it */
		:: LEVEL >= 3 && kills() -> killed[t] = true
		:: LEVEL >= 3 && kills() && busy > 0 -> busy--; due = true /* arm(RETRY_NS) */
		:: LEVEL < 3 || !kills()
		fi;
		t++ }
	:: atomic { t < N && !entered[t] -> t++ }
	:: atomic { t == N -> t = 0; break }
	od
}

inline carry_out(t)
{
	if
	:: atomic { due -> due = false }; /* claim */
		pass_all(t)
	:: else
	fi
}

/* birth.h: on_fork. A creator with SIGKILL pending does not link the child. */
inline fork(me, t)
{
	atomic { !killed[me] && !linked[me + 1] -> linked[me + 1] = true };
	entered[me + 1] = true; /* enter_child: insert */
	atomic { live++; forks++ }; /* chain_count */
	if /* doomed: kill_newborn */
	:: kills() && LEVEL >= 3 -> killed[me + 1] = true
	:: kills() && LEVEL >= 3 && busy > 0 -> busy--; due = true /* arm(1) */
	:: kills() && LEVEL < 3 -> killed[me] = true /* bpf_send_signal */
	:: else
	fi;
	run task(me + 1); /* wake_up_new_task */
	if
	:: LEVEL >= 3 -> carry_out(t) /* fork_sentence */
	:: else
	fi
}

/* death.h: on_exit, die, bury */
inline exit(me, t)
{
	dead[me] = true;
	entered[me] = false; /* seize */
	live--; /* chain_count */
	due = due || me == ROOT;
	if /* the event: its ring may be full, or nobody reads it */
	:: atomic { nfull(events) -> events ! me }
	:: skip
	fi;
	if
	:: LEVEL >= 4 -> carry_out(t) /* exit_sentence */
	:: else
	fi;
	gone[me] = true
}

proctype task(byte me)
{
	byte t;

	do
	:: killed[me] -> break
	:: me == ROOT && !killed[me] -> break /* the root exits by itself, the others never do */
	:: me + 1 < N && !killed[me] && !linked[me + 1] ->
		if
		:: fork(me, t)
		:: killed[me] /* meanwhile */
		fi
	od;
	exit(me, t)
}

#ifdef HOST
active proctype outsider()
{
	byte t;

	do
	:: carry_out(t)
	od
}
#endif

#ifdef DAEMON
/* tracer/userend.go: sentenceFromUser, signalMembers. From level 3 on the pass sends. */
inline sentence(t)
{
	due = false; /* take_out */
	pass_all(t);
	do
	:: atomic { t < N && LEVEL < 3 ->
		killed[t] = killed[t] || entered[t] && kills(); /* pidfd_send_signal */
		t++ }
	:: atomic { t == N || LEVEL >= 3 -> t = 0; break }
	od
}

/* verbs.h: settle, close_if_empty. met counts the members that the walk meets. */
inline settle(t, met, before)
{
	before = forks;
	do
	:: atomic { t < N -> met = met + entered[t]; t++ }
	:: atomic { t == N -> t = 0; break }
	od;
	atomic {
		if
		:: met == 0 && forks == before && live == 0 -> status = EMPTY
		:: else
		fi;
		met = 0; before = 0
	}
}

active proctype daemon()
{
	byte t, e, met, before;

	linked[ROOT]; /* the session is there */
	do
	:: events ? e -> e = 0; sentence(t); settle(t, met, before)
#ifndef DEAF
	:: empty(events) -> sentence(t); settle(t, met, before) /* sampler, enforcer */
#endif
	od
}
#endif

init {
	atomic { linked[ROOT] = true; entered[ROOT] = true; live = 1; run task(ROOT) }
}

#define member_lives (linked[1] && !gone[1] || linked[N - 1] && !gone[N - 1])

ltl ends { [] (gone[ROOT] && member_lives -> <> (status != ACTIVE || !member_lives)) }
ltl dies { [] (status == CONDEMNED -> <> !member_lives) }
ltl empties { [] (status == CONDEMNED -> <> (status == EMPTY)) }
ltl proven { [] (status == EMPTY ->
	dead[ROOT] && (!linked[1] || dead[1]) && (!linked[N - 1] || dead[N - 1])) }

#endif
