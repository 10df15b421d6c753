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
	tornDown
	freeLook
	deadTorn
	deadCollect
	deadReaped
	deadErase
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
	takeOverHide
	takeOverPublish
	strikeSender
	strikeReceiver
	labels
)

// regs are registers of a CPU that a step, or what follows it, reads.
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
	inCarry = rTo | rSession | rFlags | rFrom | rRet
)

// stepRow is a step: the registers that are read, its name in a counterexample, and what it does.
type stepRow struct {
	at    label
	keeps regs
	text  string
	do    func(*run)
}

// steps has each step. Its comment names the function that it stands for.
var steps [labels]stepRow

func init() {
	type x = *run
	tell([]stepRow{
		{birthCreator, 0, "reads the creator's entry", x.birthCreator},
		{birthInsert, inBirth, "inserts the child", x.birthInsert},
		{birthCount, adds | inBirth, "counts the birth", x.birthCount},
		{birthFollow, inBirth, "reads the creator's session again", x.birthFollow},
		{birthDoomed, inBirth | rMoved | rTo | rRet, "reads the states, for the child", x.birthDoomed},
		{birthLimit, inBirth | rMoved | rTo | rRet, "compares the counts with the limit", x.birthLimit},
		{birthRecount, inBirth | rMoved | rTo | rRet, "checks all of the dead", x.birthRecount},
		{deathLook, 0, "looks for its entry", x.deathLook},
		{deathEnd, 0, "has counted the death", x.leave},
		{burySeize, inBury, "swaps the start of an entry for 0", x.burySeize},
		{buryTake, inBury, "takes its session", x.buryTake},
		{buryDying, adds | inBury, "raises dying", x.buryDying},
		{buryLive, adds | inBury, "lowers live", x.buryLive},
		{buryErase, inBury, "marks the entry as a dead one's, or deletes it", x.buryErase},
		{notifyLook, 0, "is torn down, and looks for its entry", x.notifyLook},
		{notifyTorn, 0, "notes that it is torn down", x.notifyTorn},
		{tornDown, adds | rTook | rRet, "lowers dying", x.tornDown},
		{freeLook, 0, "looks for the entry of the freed task", x.freeLook},
		{deadTorn, adds | inBury, "lowers dying", x.deadTorn},
		{deadCollect, inBury, "swaps the start of a reaped task's entry", x.deadCollect},
		{deadReaped, adds | inBury, "counts it as reaped", x.deadReaped},
		{deadErase, inBury, "deletes what has its PID", x.deadErase},
		{moveCount, adds | inMove, "raises live of the new session", x.moveCount},
		{moveSwap, inMove, "swaps the entry's session", x.moveSwap},
		{moveCompare, inMove, "compares the entry's start", x.moveCompare},
		{moveBack, inMove, "swaps the session back", x.moveBack},
		{moveLeave, adds | inMove, "lowers live of the old session", x.moveLeave},
		{moveUndo, adds | inMove, "lowers live of the new session", x.moveUndo},
		{execNamed, 0, "comes to its hooks", x.execNamed},
		{execAgent, 0, "looks whether it became an agent", x.execAgent},
		{execHalted, 0, "reads the flag of a halt, at an agent's exec", x.execHalted},
		{execCondemned, 0, "reads the states, at an exec", x.execCondemned},
		{openRecord, inOpen | rFrom | rFlags, "makes a record", x.openRecord},
		{openNest, inOpen | rTo, "counts it in the session around", x.openNest},
		{openNested, inOpen | rTo, "reads the state of that session", x.openNested},
		{openEnter, inOpen, "swaps the root's session", x.openEnter},
		{openCompare, inOpen | rElem, "compares the start of the root's entry", x.openCompare},
		{openCount, inOpen, "counts the root", x.openCount},
		{openJoin, inOpen, "counts a root without an entry", x.openJoin},
		{openInsert, inOpen, "inserts the root", x.openInsert},
		{openAlive, inOpen, "looks whether the root lives", x.openAlive},
		{openGone, inOpen | rMet, "finds that the root has exited", x.openGone},
		{openLeave, inOpen, "takes back the count of the root", x.openLeave},
		{keepLook, inOpen | rFrom | rMoved, "looks for the entry of the process to keep", x.keepLook},
		{keepMoved, inOpen | rFrom | rMoved, "has moved the process to keep", x.keepMoved},
		{passTake, rRet, "takes what is due", x.passTake},
		{passVisit, rRet, "visits a task", x.passVisit},
		{storeState, rRet | rSession | rStatus, "stores a state", x.storeState},
		{haltMark, 0, "marks the next session for a halt", x.haltMark},
		{haltFlag, 0, "sets the flag of a halt", x.haltFlag},
		{haltList, 0, "ends the next session that the halt did not mark", x.haltList},
		{protectLook, rChild, "looks for the entry to protect", x.protectLook},
		{protectAlive, rChild, "looks whether the process to protect lives", x.protectAlive},
		{protectGone, rChild, "has counted the death of the process to protect", x.protectGone},
		{followVisit, inWalk | rChild | rSession | rFrom, "looks whether a task's creator has moved", x.followVisit},
		{adoptVisit, inWalk | rSession, "looks whether a task's parent is a member", x.adoptVisit},
		{dissolveVisit, inWalk | rFrom | rTo, "looks whether a task is to be let go", x.dissolveVisit},
		{settleVisit, rSession, "brings a dead task up to date", x.settleVisit},
		{settleMeet, rSession | rMet, "looks whether a task is a member", x.settleMeet},
		{settleClose, rSession | rMet, "compares the counts with the walk", x.settleClose},
		{settleDying, rSession, "closes the session, if it is empty", x.settleDying},
		{releaseState, rSession, "takes the state away", x.releaseState},
		{releaseNested, rSession | rStatus, "reads the counts of the record", x.releaseNested},
		{releaseHand, rSession | rStatus, "hands a dead task to the session around, at last frees the record", x.releaseHand},
		{reconcileVisit, 0, "looks whether a task's birth was missed", x.reconcileVisit},
		{reconcileCount, rChild | rSession, "counts a birth that was missed", x.reconcileCount},
		{takeOverExecs, 0, "reads the last execs of all tasks", x.takeOverExecs},
		{takeOverSessions, 0, "copies the records", x.takeOverSessions},
		{takeOverAttach, 0, "attaches its hooks", x.takeOverAttach},
		{takeOverShow, 0, "shows the old processes to its hooks", x.takeOverShow},
		{takeOverWait, rRet, "waits for hooks that run", x.takeOverWait},
		{carryVisit, inWalk, "looks for a task in the old entries", x.carryVisit},
		{carryCount, adds | inCarry, "counts a carried task", x.carryCount},
		{carryInsert, inCarry, "inserts a carried task", x.carryInsert},
		{carryUndo, adds | inCarry, "takes back the count of a carried task", x.carryUndo},
		{carryAlive, inWalk, "looks whether the carried task lives", x.carryAlive},
		{takeOverStop, 0, "stops the old exec hook", x.takeOverStop},
		{takeOverAgain, 0, "reads the records again", x.takeOverAgain},
		{takeOverStates, 0, "copies the states", x.takeOverStates},
		{takeOverAgents, 0, "looks for agents itself", x.takeOverAgents},
		{lateVisit, 0, "looks whether a task became an agent in between", x.lateVisit},
		{deadVisit, 0, "looks for a task among the old dead", x.deadVisit},
		{deadFound, adds | rChild | rTook | rStatus, "counts a dead task", x.deadFound},
		{takeOverHide, 0, "lets go of the old processes", x.takeOverHide},
		{takeOverPublish, 0, "publishes its pins, and detaches the old side", x.takeOverPublish},
	})
}

func tell(rows []stepRow) {
	for _, x := range rows {
		steps[x.at] = x
	}
}
