package protocol

import (
	"slices"
	"unsafe"
)

const none = 0 // no entry: an element's number begins at 1

// State is the host and all kernel sides at one moment. A task, a session and an entry are numbers; a task's is also
// its start time. Task 0 is init: it never dies, is not a member, and forks outsiders.
type State struct {
	mem []byte // all that follows, without padding: what a search copies, compares and hashes
	// By the promises alone, for each task, bits of sessions: those that it may be a member of, and must.
	may, must []uint64
	w         *words
	tasks     []task
	sides     [2]side // the one of the daemon, and the one that takes over
	// What each CPU does: [0] the daemon's verb, [t] the hooks in task t, and last the hooks in
	// an outsider's event, which only carry out what is due.
	cpus   []cpu
	truths []truth
}

// words are the single words of a state.
type words struct {
	left   [actions]uint8 // how often each action may still happen
	born   uint8          // tasks so far
	opened uint8          // sessions so far
	ours   uint8          // the side whose daemon answers
	shown  bool           // the processes of side 0 are in the map `elder` of side 1
	told   bool           // an event that asks for a pass waits for the daemon
	halted bool           // the flag of a halt: in a map of its own, which outlives each side
}

// newState has the room that the run needs.
func (m *Config) newState() *State {
	s := &State{}
	words := make([]uint64, (s.place(m, nil)+7)/8)
	s.mem = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	s.place(m, s.mem)
	return s
}

// place makes the parts of a state lie in mem, and returns how long they are.
func (s *State) place(m *Config, mem []byte) int {
	at := 0
	s.may = part[uint64](mem, &at, m.Tasks+1)
	s.must = part[uint64](mem, &at, m.Tasks+1)
	s.w = unsafe.SliceData(part[words](mem, &at, 1))
	s.tasks = part[task](mem, &at, m.Tasks+1)
	for i := range s.sides {
		k, first := &s.sides[i], at
		k.w = unsafe.SliceData(part[sideWords](mem, &at, 1))
		k.entries = part[entry](mem, &at, m.Entries+1)
		k.sessions = part[session](mem, &at, m.Sessions+1)
		if mem != nil {
			k.mem = mem[first:at]
		}
	}
	s.cpus = part[cpu](mem, &at, m.Tasks+2)
	s.truths = part[truth](mem, &at, m.Sessions+1)
	return at
}

// part is an array of n elements in mem. Without mem it only counts their bytes.
func part[T any](mem []byte, at *int, n int) []T {
	from := *at
	*at += n * int(unsafe.Sizeof(*new(T)))
	if mem == nil {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[from])), n)
}

const daemon = 0

// host is the number of the last CPU.
func (s *State) host() uint8 { return uint8(len(s.cpus) - 1) }

func (s *State) idle() bool {
	return !slices.ContainsFunc(s.cpus, func(c cpu) bool { return c.at != idle })
}

// unsure: a CPU has made a record that it may take back.
func (s *State) unsure() bool {
	for i := range s.cpus {
		c := &s.cpus[i]
		if slices.ContainsFunc([]label{c.at, c.ret, c.after},
			func(at label) bool { return at >= openRecord && at <= keepMoved }) {
			return true
		}
	}
	return false
}

type stage uint8

const (
	unborn stage = iota
	listed       // on the task list, not running yet
	running
	exiting // its last thread is in do_exit: signal->live is 0
	zombie  // torn down
	reaped  // its PID is free
	gone    // an RCU grace period later
)

func (g stage) String() string {
	return [...]string{"unborn", "listed", "running", "exiting", "zombie", "reaped", "gone"}[g]
}

// task is a process of one thread.
type task struct {
	stage   stage
	pid     uint8
	creator uint8
	killed  bool  // SIGKILL is pending: it only dies
	dumping bool  // it dumps its core, which takes as long as it likes
	agent   bool  // its name is an agent's
	plain   bool  // of one that opens no session inside another one
	became  bool  // by its own exec
	early   bool  // that exec was before the take-over
	owed    bool  // that exec has to open a session
	barred  bool  // that exec was while a halt was in force
	defiant bool  // SIGTERM does not end it
	stopped uint8 // by a signal: by whom
	pending bool  // and that signal is pending still
	terms   uint8 // how often it got one
}

// alive as the kernel counts: signal->live is not 0.
func (t *task) alive() bool { return t.stage == listed || t.stage == running }

// hashed: the task list and bpf_task_from_pid still have it.
func (t *task) hashed() bool { return t.stage >= listed && t.stage < reaped }

// truth is what was asked of a session, for the invariants alone.
type truth struct {
	root      uint8
	owner     uint8
	outlasts  bool // its root's exit does not end it
	requested bool // a request ended it
	dissolved bool
	kept      bool
	clean     bool // a verdict said so
	open      bool // its creator has answered
}

// side is one kernel side: its maps and words.
type side struct {
	mem      []byte
	w        *sideWords
	entries  []entry
	sessions []session
}

type sideWords struct {
	attached bool
	agents   bool // control.agents
	due      bool // control.due has come
	later    bool // it has not, and only stops wait for it
}

// entry is an element of `processes`. After a delete its memory stays, and the next insert may use it.
type entry struct {
	linked  bool
	pid     uint8
	start   uint8 // 0: its death, or that it was reaped, is being counted
	mark    mark
	session uint8
	taken   bool // in the word of the session: a death has read it
	creator uint8
	since   uint8 // tasks born before it was entered
	flags   uint8
}

const (
	flagRoot uint8 = 1 << iota
	flagProtected
	flagOwner
	flagTermed
	flagStopped
)

// mark is what the start of an entry says besides, if its process is dead.
type mark uint8

const (
	absent mark = iota
	tearing
	torn
	counting // as reaped; erased then
)

// session is an element of `sessions` together with that of `session_ctl`.
type session struct {
	present   bool
	parent    uint8
	root      uint8
	owner     uint8
	live      int8
	dying     int8
	held      int8
	forks     uint8
	state     status
	flags     uint8
	nested    int8
	unentered uint8
	created   uint8 // tasks born before it
	late      bool  // its deadline has passed
	ended     uint8 // tasks born before its end began, with a grace
	paused    bool
	halts     bool // the halt that is being asked for ends it
}

const (
	sessionAgent uint8 = 1 << iota
	sessionKept
	sessionDrifted
	sessionOutlasts // its root's exit does not end it
	sessionPatient  // its members have a grace if nobody asked for its end
	sessionOrphaned // it ends because its root, or owner, died
)

type status uint8

// In the order of bpf/lineage.h: states only grow.
const (
	free status = iota
	active
	ending
	condemned
	empty
	dissolved
)

// kills is kills() of session.h.
func (s status) kills() bool { return s == condemned || s == empty }

// cpu is where one CPU is, and what it has in registers.
type cpu struct {
	at, ret label
	after   label // what follows the burial that it is at
	hook    hook
	phase   uint8 // the program of the hook
	passed  bool  // its sentence was carried out
	side    uint8
	task    uint8
	child   uint8
	owner   uint8 // of the session that it opens
	elem    uint8 // a pointer into `processes`
	by      uint8 // the same, to a creator's entry
	start   uint8 // what it saw there
	session uint8
	from    uint8
	to      uint8
	took    uint8 // the session of a death that it counts
	last    uint8 // and the flags of its entry
	stale   bool  // that death is not remembered
	left    bool  // it is counted as one that was not
	walk    uint8 // the next task of its walk
	moved   bool  // its walk found something
	met     bool
	amid    bool // it met a death that is being counted
	forks   uint8
	status  status
	flags   uint8
	seen    uint8 // tasks that held a PID when it compared a limit
}

type action uint8

// What may happen next, apart from the steps that CPUs are at.
const (
	fork action = iota
	outsider
	exec
	exit
	reap
	freeTask
	die
	dump
	create
	end
	endPatient
	keep
	dissolve
	settle
	release
	reconcile
	protect
	adopt
	follow
	defy
	execPlain
	execOther
	takeOver
	halt
	pause
	resume
	suspend
	wake
	heed
	strike
	skip
	lose
	hear
	look
	pass
	ripen
	expire
	step
	actions
)

func (a action) String() string {
	return [...]string{"fork", "outsider", "exec", "exit", "reap", "free", "die", "dump", "create", "end", "end with grace",
		"keep", "dissolve", "settle", "release", "reconcile", "protect", "adopt", "follow", "defy", "exec plain",
		"exec other", "take over", "halt", "pause", "resume", "job control stops", "SIGCONT to", "SIGSTOP stops", "strikes",
		"skip", "lose", "hear", "look", "pass", "later has come", "deadline", "step"}[a]
}
