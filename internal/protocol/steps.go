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
	haltFlag
	haltList
	protectLook
	protectAlive
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

// steps has each step in words, and what it does. Its comment names the function that it stands for.
var steps [labels]struct {
	text string
	do   func(*run)
}

// counts: the steps that only add to the counts of a chain.
var counts = [labels]bool{
	birthCount: true, buryDying: true, buryLive: true, notifyCount: true, deadTorn: true, deadReaped: true, moveCount: true, moveLeave: true,
	moveUndo: true, carryCount: true, carryUndo: true, deadFound: true, deadTornOnly: true,
}

// stepRow is what a step does, and its text in a counterexample.
type stepRow struct {
	at   label
	text string
	do   func(*run)
}

func init() {
	tell([]stepRow{
		{birthCreator, "reads the creator's entry", (*run).birthCreator},
		{birthInsert, "inserts the child", (*run).birthInsert},
		{birthCount, "counts the birth", (*run).birthCount},
		{birthFollow, "reads the creator's session again", (*run).birthFollow},
		{birthDoomed, "reads the states, for the child", (*run).birthDoomed},
		{birthLimit, "compares the counts with the limit", (*run).birthLimit},
		{birthRecount, "checks all of the dead", (*run).birthRecount},
		{deathLook, "looks for its entry", (*run).deathLook},
		{deathEnd, "has counted the death", (*run).deathEnd},
		{burySeize, "swaps the start of an entry for 0", (*run).burySeize},
		{buryTake, "takes its session, and remembers the dead", (*run).buryTake},
		{buryDying, "raises dying", (*run).buryDying},
		{buryLive, "lowers live", (*run).buryLive},
		{buryErase, "deletes the entry", (*run).buryErase},
		{notifyLook, "is torn down, and looks for its entry", (*run).notifyLook},
		{notifyTorn, "notes in dead that it is torn down", (*run).notifyTorn},
		{notifyCount, "lowers dying", (*run).notifyCount},
		{freeLook, "looks for the freed task in dead", (*run).freeLook},
		{deadTorn, "lowers dying", (*run).deadTorn},
		{deadCollect, "takes the reaped task from dead", (*run).deadCollect},
		{deadReaped, "counts it as reaped", (*run).deadReaped},
		{moveCount, "raises live of the new session", (*run).moveCount},
		{moveSwap, "swaps the entry's session", (*run).moveSwap},
		{moveCompare, "compares the entry's start", (*run).moveCompare},
		{moveBack, "swaps the session back", (*run).moveBack},
		{moveLeave, "lowers live of the old session", (*run).moveLeave},
		{moveUndo, "lowers live of the new session", (*run).moveUndo},
		{execNamed, "comes to its hooks", (*run).execNamed},
		{execAgent, "looks whether it became an agent", (*run).execAgent},
		{execHalted, "reads the flag of a halt, at an agent's exec", (*run).execHalted},
		{execCondemned, "reads the states, at an exec", (*run).execCondemned},
		{openRecord, "makes a record", (*run).openRecord},
		{openNest, "counts it in the session around", (*run).openNest},
		{openNested, "reads the state of that session", (*run).openNested},
		{openEnter, "swaps the root's session", (*run).openEnter},
		{openCompare, "compares the start of the root's entry", (*run).openCompare},
		{openCount, "counts the root", (*run).openCount},
		{openJoin, "counts a root without an entry", (*run).openJoin},
		{openInsert, "inserts the root", (*run).openInsert},
		{openAlive, "looks whether the root lives", (*run).openAlive},
		{openGone, "finds that the root has exited", (*run).openGone},
		{openLeave, "takes back the count of the root", (*run).openLeave},
		{keepLook, "looks for the entry of the process to keep", (*run).keepLook},
		{keepMoved, "has moved the process to keep", (*run).keepMoved},
		{passTake, "takes what is due", (*run).passTake},
		{passVisit, "visits a task", (*run).passVisit},
		{storeState, "stores a state", (*run).storeState},
		{haltFlag, "sets the flag of a halt", (*run).haltFlag},
		{haltList, "ends the next session of the host", (*run).haltList},
		{protectLook, "looks for the entry to protect", (*run).protectLook},
		{protectAlive, "looks whether the process to protect lives", (*run).protectAlive},
		{followVisit, "looks whether a task's creator has moved", (*run).followVisit},
		{adoptVisit, "looks whether a task's parent is a member", (*run).adoptVisit},
		{dissolveVisit, "looks whether a task is to be let go", (*run).dissolveVisit},
		{settleVisit, "brings a dead task up to date", (*run).settleVisit},
		{settleMeet, "looks whether a task is a member", (*run).settleMeet},
		{settleClose, "compares the counts with the walk", (*run).settleClose},
		{settleDying, "closes the session, if it is empty", (*run).settleDying},
		{releaseState, "takes the state away", (*run).releaseState},
		{releaseNested, "reads the counts of the record", (*run).releaseNested},
		{releaseHand, "hands a dead task to the session around, at last frees the record", (*run).releaseHand},
		{reconcileVisit, "looks whether a task's birth was missed", (*run).reconcileVisit},
		{reconcileCount, "counts a birth that was missed", (*run).reconcileCount},
		{takeOverExecs, "reads the last execs of all tasks", (*run).takeOverExecs},
		{takeOverSessions, "copies the records", (*run).takeOverSessions},
		{takeOverAttach, "attaches its hooks", (*run).takeOverAttach},
		{takeOverShow, "shows the old processes to its hooks", (*run).takeOverShow},
		{takeOverWait, "waits for hooks that run", (*run).takeOverWait},
		{carryVisit, "looks for a task in the old entries", (*run).carryVisit},
		{carryCount, "counts a carried task", (*run).carryCount},
		{carryInsert, "inserts a carried task", (*run).carryInsert},
		{carryUndo, "takes back the count of a carried task", (*run).carryUndo},
		{carryAlive, "looks whether the carried task lives", (*run).carryAlive},
		{takeOverStop, "stops the old exec hook", (*run).takeOverStop},
		{takeOverAgain, "reads the records again", (*run).takeOverAgain},
		{takeOverStates, "copies the states", (*run).takeOverStates},
		{takeOverAgents, "looks for agents itself", (*run).takeOverAgents},
		{lateVisit, "looks whether a task became an agent in between", (*run).lateVisit},
		{deadVisit, "looks for a task among the old dead", (*run).deadVisit},
		{deadFound, "counts a dead task", (*run).deadFound},
		{deadTornOnly, "lowers dying", (*run).deadTornOnly},
		{takeOverHide, "lets go of the old processes", (*run).takeOverHide},
		{takeOverPublish, "publishes its pins, and detaches the old side", (*run).takeOverPublish},
	})
}

func tell(rows []stepRow) {
	for _, x := range rows {
		steps[x.at].text, steps[x.at].do = x.text, x.do
	}
}
