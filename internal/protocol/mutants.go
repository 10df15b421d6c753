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
	Recount
	HeldOnce
	CountApart
	FlagFirst
	FlagAfterRecord
	OnlyAgents
	StoppedHalts
	MarkedDue
	StopAtBirth
	FlagAgain
	StopLooks
	ResumeLooks
	FlagAhead
	OnlyOurs
	PausedDies
	ContinueSeen
	ContinueSoon
	NoLater
	BeingCounted
	RootCounts
	MidPass
	PlaceReaps
	PlaceWaits
	MarkSession
	UndoneDue
	SpareInside
	SpareEqual
)
