package protocol

// label is the next step of a CPU.
type label uint8

const (
	idle label = iota
	birthCreator
	birthInsert
	birthCount
	birthFollow
	birthDoomed
	birthLimit
	birthRecount
	deathLook
	deathEnd
	burySeize
	buryTake
	buryDying
	buryLive
	buryErase
	notifyLook
	notifyTorn
	notifyCount
	freeLook
	deadTorn
	deadCollect
	deadReaped
	moveCount
	moveSwap
	moveCompare
	moveBack
	moveLeave
	moveUndo
	execNamed
	execAgent
	execHalted
	execCondemned
	openRecord
	openNest
	openNested
	openEnter
	openCompare
	openCount
	openJoin
	openInsert
	openAlive
	openGone
	openLeave
	keepLook
	keepMoved
	passTake
	passVisit
	storeState
	stopFlag
	stopSend
	stopAgain
	stopLook
	resumeFlag
	resumeSend
	resumeLook
	haltMark
	haltFlag
	haltList
	protectLook
	protectAlive
	protectGone
	followVisit
	adoptVisit
	dissolveVisit
	settleVisit
	settleMeet
	settleClose
	settleDying
	releaseState
	releaseNested
	releaseHand
	reconcileVisit
	reconcileCount
	takeOverExecs
	takeOverSessions
	takeOverAttach
	takeOverShow
	takeOverWait
	carryVisit
	carryCount
	carryInsert
	carryUndo
	carryAlive
	takeOverStop
	takeOverAgain
	takeOverStates
	takeOverAgents
	lateVisit
	deadVisit
	deadFound
	deadTornOnly
	takeOverHide
	takeOverPublish
	labels
)

// regs are registers of a CPU that a step, or what follows it, reads. Others are read in each step, or cleared after use.
type regs uint16

const (
	rChild regs = 1 << iota
	rElem
	rBy
	rStart
	rSession
	rFrom
	rTo
	rTook
	rMoved
	rMet
	rStatus
	rFlags
	rRet // and those of the step that follows
	adds // the step only adds to the counts of a chain

	inBirth = rChild | rBy | rSession | rMet | rStatus
	inBury  = rElem | rStart | rTook // and those of the step that follows
	inMove  = rElem | rStart | rFrom | rTo | rRet
	inOpen  = rChild | rSession | rRet
	inWalk  = rMoved | rMet
)

// stepRow is a step: the registers that it and what follows it read, what it is called in a counterexample, and what it does.
type stepRow struct {
	at    label
	keeps regs
	text  string
	do    func(*run)
}

// steps has each step. Its comment names the function that it stands for.
var steps [labels]stepRow

func init() {
	tell([]stepRow{
		{birthCreator, 0, "reads the creator's entry", (*run).birthCreator},
		{birthInsert, inBirth, "inserts the child", (*run).birthInsert},
		{birthCount, adds | inBirth, "counts the birth", (*run).birthCount},
		{birthFollow, inBirth, "reads the creator's session again", (*run).birthFollow},
		{birthDoomed, inBirth | rMoved | rTo | rRet, "reads the states, for the child", (*run).birthDoomed},
		{birthLimit, inBirth | rMoved | rTo | rRet, "compares the counts with the limit", (*run).birthLimit},
		{birthRecount, inBirth | rMoved | rTo | rRet, "checks all of the dead", (*run).birthRecount},
		{deathLook, 0, "looks for its entry", (*run).deathLook},
		{deathEnd, 0, "has counted the death", (*run).deathEnd},
		{burySeize, inBury, "swaps the start of an entry for 0", (*run).burySeize},
		{buryTake, inBury, "takes its session, and remembers the dead", (*run).buryTake},
		{buryDying, adds | inBury, "raises dying", (*run).buryDying},
		{buryLive, adds | inBury, "lowers live", (*run).buryLive},
		{buryErase, inBury, "deletes the entry", (*run).buryErase},
		{notifyLook, 0, "is torn down, and looks for its entry", (*run).notifyLook},
		{notifyTorn, 0, "notes in dead that it is torn down", (*run).notifyTorn},
		{notifyCount, adds | rTook, "lowers dying", (*run).notifyCount},
		{freeLook, 0, "looks for the freed task in dead", (*run).freeLook},
		{deadTorn, adds | rChild | rTook | rRet, "lowers dying", (*run).deadTorn},
		{deadCollect, rChild | rRet, "takes the reaped task from dead", (*run).deadCollect},
		{deadReaped, rChild | rTook | rRet, "counts it as reaped", (*run).deadReaped},
		{moveCount, adds | inMove, "raises live of the new session", (*run).moveCount},
		{moveSwap, inMove, "swaps the entry's session", (*run).moveSwap},
		{moveCompare, inMove, "compares the entry's start", (*run).moveCompare},
		{moveBack, inMove, "swaps the session back", (*run).moveBack},
		{moveLeave, adds | inMove, "lowers live of the old session", (*run).moveLeave},
		{moveUndo, adds | inMove, "lowers live of the new session", (*run).moveUndo},
		{execNamed, 0, "comes to its hooks", (*run).execNamed},
		{execAgent, 0, "looks whether it became an agent", (*run).execAgent},
		{execHalted, 0, "reads the flag of a halt, at an agent's exec", (*run).execHalted},
		{execCondemned, 0, "reads the states, at an exec", (*run).execCondemned},
		{openRecord, inOpen | rFrom | rFlags, "makes a record", (*run).openRecord},
		{openNest, inOpen | rTo, "counts it in the session around", (*run).openNest},
		{openNested, inOpen | rTo, "reads the state of that session", (*run).openNested},
		{openEnter, inOpen, "swaps the root's session", (*run).openEnter},
		{openCompare, inOpen | rElem, "compares the start of the root's entry", (*run).openCompare},
		{openCount, inOpen, "counts the root", (*run).openCount},
		{openJoin, inOpen, "counts a root without an entry", (*run).openJoin},
		{openInsert, inOpen, "inserts the root", (*run).openInsert},
		{openAlive, inOpen, "looks whether the root lives", (*run).openAlive},
		{openGone, inOpen | rMet, "finds that the root has exited", (*run).openGone},
		{openLeave, inOpen, "takes back the count of the root", (*run).openLeave},
		{keepLook, inOpen | rFrom | rMoved, "looks for the entry of the process to keep", (*run).keepLook},
		{keepMoved, inOpen | rFrom | rMoved, "has moved the process to keep", (*run).keepMoved},
		{passTake, rRet, "takes what is due", (*run).passTake},
		{passVisit, rRet, "visits a task", (*run).passVisit},
		{storeState, rRet | rSession | rStatus, "stores a state", (*run).storeState},
		{haltMark, 0, "marks the next session for a halt", (*run).haltMark},
		{haltFlag, 0, "sets the flag of a halt", (*run).haltFlag},
		{haltList, 0, "ends the next session that the halt did not mark", (*run).haltList},
		{protectLook, rChild, "looks for the entry to protect", (*run).protectLook},
		{protectAlive, rChild, "looks whether the process to protect lives", (*run).protectAlive},
		{protectGone, rChild, "has counted the death of the process to protect", (*run).protectGone},
		{followVisit, inWalk | rChild | rSession | rFrom, "looks whether a task's creator has moved", (*run).followVisit},
		{adoptVisit, inWalk | rSession, "looks whether a task's parent is a member", (*run).adoptVisit},
		{dissolveVisit, inWalk | rFrom | rTo, "looks whether a task is to be let go", (*run).dissolveVisit},
		{settleVisit, rSession, "brings a dead task up to date", (*run).settleVisit},
		{settleMeet, rSession | rMet, "looks whether a task is a member", (*run).settleMeet},
		{settleClose, rSession | rMet, "compares the counts with the walk", (*run).settleClose},
		{settleDying, rSession, "closes the session, if it is empty", (*run).settleDying},
		{releaseState, rSession, "takes the state away", (*run).releaseState},
		{releaseNested, rSession | rStatus, "reads the counts of the record", (*run).releaseNested},
		{releaseHand, rSession | rStatus, "hands a dead task to the session around, at last frees the record", (*run).releaseHand},
		{reconcileVisit, 0, "looks whether a task's birth was missed", (*run).reconcileVisit},
		{reconcileCount, rChild | rSession, "counts a birth that was missed", (*run).reconcileCount},
		{takeOverExecs, 0, "reads the last execs of all tasks", (*run).takeOverExecs},
		{takeOverSessions, 0, "copies the records", (*run).takeOverSessions},
		{takeOverAttach, 0, "attaches its hooks", (*run).takeOverAttach},
		{takeOverShow, 0, "shows the old processes to its hooks", (*run).takeOverShow},
		{takeOverWait, rRet, "waits for hooks that run", (*run).takeOverWait},
		{carryVisit, inWalk, "looks for a task in the old entries", (*run).carryVisit},
		{carryCount, adds | rElem | rSession | rFlags | rFrom | rRet, "counts a carried task", (*run).carryCount},
		{carryInsert, rElem | rSession | rFlags | rFrom | rRet, "inserts a carried task", (*run).carryInsert},
		{carryUndo, adds | rElem | rSession | rFlags | rFrom | rRet, "takes back the count of a carried task", (*run).carryUndo},
		{carryAlive, inWalk, "looks whether the carried task lives", (*run).carryAlive},
		{takeOverStop, 0, "stops the old exec hook", (*run).takeOverStop},
		{takeOverAgain, 0, "reads the records again", (*run).takeOverAgain},
		{takeOverStates, 0, "copies the states", (*run).takeOverStates},
		{takeOverAgents, 0, "looks for agents itself", (*run).takeOverAgents},
		{lateVisit, 0, "looks whether a task became an agent in between", (*run).lateVisit},
		{deadVisit, 0, "looks for a task among the old dead", (*run).deadVisit},
		{deadFound, adds | rChild | rTook | rStatus, "counts a dead task", (*run).deadFound},
		{deadTornOnly, adds | rTook, "lowers dying", (*run).deadTornOnly},
		{takeOverHide, 0, "lets go of the old processes", (*run).takeOverHide},
		{takeOverPublish, 0, "publishes its pins, and detaches the old side", (*run).takeOverPublish},
	})
}

func tell(rows []stepRow) {
	for _, x := range rows {
		steps[x.at] = x
	}
}
