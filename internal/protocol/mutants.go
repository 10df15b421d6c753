package protocol

// Switch is a set of precautions that are taken away.
type Switch uint64

// The precautions of the programs.
const (
	Identity Switch = 1 << iota
	SecondWriter
	DoomedAtBirth
	Walk
	InsertFirst
	TornDown
	SwapState
	CountChain
	StateChain
	Narrow
	BornInside
	ProtectMember
	ExitCounted
	CoreDump
	CompareAfterSwap
	CreatorsName
	Counting
	Seize
	DyingFirst
	FollowCreator
	LiveAfterInsert
	Nested
	HandDead
	Dissolved
	Look
	CarryAgain
	StopAgents
	WaitForHooks
	ReadAgain
	LateAgents
	OpenOnce
	OlderEntry
	GiveBack
	RootStands
	BirthFirst
	RootOfRecord
	LastExec
	RootAlone
	Recount
	HeldOnce
	CountApart
	FlagFirst
	FlagAfterRecord
	OnlyAgents
	StoppedHalts
	StopAtBirth
	FlagAgain
	StopLooks
	ResumeLooks
	FlagAhead
	OnlyOurs
	PausedDies
	ContinueSeen
)

// Precaution is one switch.
type Precaution struct {
	Off  Switch
	Trap int // of section 5 of docs/DESIGN.md; 0: none
	Text string
}

// Precautions are all that have a switch.
var Precautions = []Precaution{
	{Identity, 1, "a look-up compares the start"},
	{SecondWriter, 2, "a second writer enters what the first one missed"},
	{DoomedAtBirth, 3, "a birth reads the states"},
	{Walk, 3, "an end walks all tasks"},
	{InsertFirst, 3, "a birth reads the states after its insert"},
	{TornDown, 7, "a process counts as torn down once it is a zombie, not while it exits"},
	{SwapState, 8, "states change by compare-and-swap"},
	{CountChain, 9, "counts move on the whole chain"},
	{StateChain, 9, "states are read on the whole chain"},
	{Narrow, 10, "reconcile enters only what was born after its parent was entered"},
	{BornInside, 0, "reconcile enters only what was born after its session began"},
	{ProtectMember, 11, "a member is not protected"},
	{ExitCounted, 16, "an exit is shown when it is counted"},
	{Recount, 12, "each zombie is checked again before a session is ended for its zombies"},
	{CoreDump, 19, "a core dump is told from a kill"},
	{CompareAfterSwap, 20, "the start is compared after a swap of the session"},
	{CreatorsName, 21, "a child has its creator's name until it execs"},
	{Counting, 22, "a death that is being counted leaves the count alone"},
	{Seize, 0, "one caller counts a death"},
	{DyingFirst, 0, "dying is raised before live falls"},
	{FollowCreator, 0, "a birth reads the creator's session again"},
	{LiveAfterInsert, 0, "what enters a process looks afterwards whether it has exited"},
	{Nested, 0, "a record with nested records stays"},
	{HandDead, 0, "the unreaped dead of a record are handed to the session around it"},
	{Dissolved, 0, "a dissolved session has a state of its own"},
	{Look, 0, "the daemon compares its picture with the kernel's"},
	{CarryAgain, 0, "a take-over moves what the old side moved meanwhile"},
	{StopAgents, 0, "a take-over stops the old exec hook"},
	{WaitForHooks, 0, "a take-over waits for exec hooks that run"},
	{ReadAgain, 0, "a take-over reads the sessions again"},
	{LateAgents, 0, "a take-over looks for agents that no side saw"},
	{OpenOnce, 0, "an exec and a take-over open one session"},
	{OlderEntry, 0, "an entry that is younger than the process that is looked for is not stale"},
	{GiveBack, 0, "only the entry of a living process is given back after a swap"},
	{RootStands, 0, "a session whose root was entered, and forked, is not taken back"},
	{RootAlone, 0, "a session of a root that has exited without a fork is taken back"},
	{BirthFirst, 0, "no session is opened over a process whose birth is under way"},
	{RootOfRecord, 0, "an exec asks the record of its session for the root, not its entry"},
	{HeldOnce, 0, "a death does not change the count that the limit is compared with"},
	{CountApart, 0, "a move does not count in sessions that are around both"},
	{FlagFirst, 0, "a halt sets its flag before it lists the sessions"},
	{FlagAfterRecord, 0, "an exec reads the flag of a halt when the record of its session is there"},
	{OnlyAgents, 0, "a halt kills at their exec only agents"},
	{StoppedHalts, 0, "an exec hook that opens no sessions any more reads the flag of a halt"},
	{StopAtBirth, 0, "a birth in a paused session is stopped"},
	{FlagAgain, 0, "the flag of a stop is set again after SIGSTOP"},
	{StopLooks, 0, "what sends SIGSTOP reads the pause again"},
	{ResumeLooks, 0, "what sends SIGCONT reads the pause again"},
	{FlagAhead, 0, "the flag of a stop is taken away ahead of SIGCONT"},
	{OnlyOurs, 0, "a resume continues only what a pause has stopped"},
	{PausedDies, 0, "a paused session ends without a grace"},
	{ContinueSeen, 0, "the hook on signals sees SIGCONT to a member of a paused session"},
	{LastExec, 0, "a take-over compares execs, not names"},
}

// Outside says why a trap is not one of the machine's.
var Outside = map[int]string{
	4:  "which programs the kernel's recursion guard skips; that one may be skipped is in the machine",
	5:  "in which context a signal works",
	6:  "the machine has no threads",
	13: "the machine has no clock",
	14: "the machine has one PID namespace",
	15: "the machine has no ring",
	17: "what a kernel lacks",
	18: "a refused fork proves nothing, and the machine holds without it",
}
