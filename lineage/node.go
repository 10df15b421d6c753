package lineage

import (
	"cmp"
)

type State uint8

// The states of a process.
const (
	Unknown State = iota // only other events named it: it may be live or dead
	Live
	Zombie // exited, not yet reaped
	Exited // exited and reaped
)

func (s State) String() string {
	return [...]string{"unknown", "live", "zombie", "exited"}[min(s, Exited)]
}

func (s State) over() bool { return s >= Zombie }

// Shim is the first argument of the program that becomes the command of lineage run and lineage
// init, and waits until its session exists. After it come the numbers of two pipes, for its order
// and its refusal, and then the command. It is not a command of the session.
const Shim = "__shim"

// Command is what a process ran from Time (boottime, ns) on: first the command of its
// creator at the fork, then one for each exec.
type Command struct {
	Time          uint64
	Comm          string   `json:",omitzero"`
	Exe           string   `json:",omitzero"`
	Argv          []string `json:",omitempty"` // shared, not to be changed
	ArgvTruncated bool     `json:",omitzero"`
}

// Move is a change of parent. Inferred moves come from a snapshot: Time is the
// snapshot's, the move happened earlier, and other moves may be missing.
type Move struct {
	Time     uint64 // boottime, ns
	From, To ID
	Inferred bool `json:"-"`
}

// Use is what snapshots tell of a process's use of the host.
type Use struct {
	Busy uint64  // the snapshot, or its start, from which on it used less than [quiet]
	RSS  uint64  // bytes at the last snapshot
	Load float64 // how many CPUs it used between the last two snapshots, or since its start
}

// Node is a copy of what the graph knows of one process: it does not change with the
// graph. Times are boottime nanoseconds, 0 if unknown. As JSON it has what Restore takes, each
// command line once; ID and Session are the keys of what is kept.
type Node struct {
	ID       ID        `json:"-"`
	Session  SessionID `json:"-"` // now, or the last; 0: none
	Evidence Evidence  `json:",omitzero"`
	Source   uint8     `json:",omitzero"` // as in the event or the snapshot
	Creator  ID        `json:",omitzero"` // never changes, also when that process is forgotten
	Under    ID        `json:"-"`         // the nearest creator in memory; zero: none
	Parent   ID        `json:",omitzero"` // now, or the last
	State    State     `json:",omitzero"`
	Orphan   bool      `json:"-"` // live, not a root, and its creator is dead

	Exe           string    `json:"-"`
	Argv          []string  `json:"-"` // shared, not to be changed
	ArgvTruncated bool      `json:"-"`
	Commands      []Command `json:",omitempty"` // by time; at most 32 execs: the first and the latest
	Looks

	Born   uint64 `json:"-"`
	Exited uint64 `json:",omitzero"` // an upper bound unless StatusKnown

	Reaped        bool   `json:"-"`         // a Reaped event reported that its PID is free
	StatusKnown   bool   `json:",omitzero"` // an Exit event reported Status, Flags, CPUTime and MaxRSS
	Status, Flags uint32 `json:",omitzero"`
	CPUTime       uint64 `json:",omitzero"` // ns; of a live process at the last snapshot
	MaxRSS        uint64 `json:",omitzero"` // bytes
	Use           Use    `json:"-"`

	Reparents  []Move     `json:",omitempty"` // by time; at most 64: the first and the latest
	Reconciled bool       `json:"-"`          // known from a snapshot, its Birth was never seen
	Ghost      bool       `json:",omitzero"`  // no Birth, Exec or snapshot named it
	Claim      *Claim     `json:",omitempty"` // its own or an ancestor's; nil: none
	Container  *Container `json:",omitempty"` // its own, or its creator's at the fork; nil: none, or not known
	// Hops counts the dead creators that were left out between this process and the
	// nearest remembered one (see Options). Creator is the first of them.
	Hops uint32 `json:"-"`
	// Signal is what ended a dead process, if a signal did, or what stopped a live one; nil: none, or not known.
	Signal *Signal `json:",omitempty"`
}

// The lists that a node can be on, one link each.
const (
	siblings = iota // children of one creator, by start
	roll            // present or past processes of one session
	shelf           // history, or dead ancestors that are needed
	change          // to be taken by the reader that tracks the graph
	lists
)

// looks is what a snapshot may change in a process, except state and parent.
type looks struct {
	Looks
	cpuTime, rss uint64
}

// node is a process in memory. It is in the index from get to recycle.
type node struct {
	id        ID
	creatorID ID
	parent    ID

	creator  *node // nearest remembered; nil: none, or forgotten
	children list
	links    [lists]struct{ prev, next *node }
	newer    *node // index chain
	older    *node

	session  *session
	enrolled *session // the session whose lists and counts include it, as standing says
	shelved  *list

	claim     *Claim
	container *Container
	signal    *Signal
	inherited *Image // the creator's command at the fork
	execs     []exec
	moves     []Move

	at         uint64 // last sign of life: Birth, Exec or snapshot
	born       uint64 // Time of the earliest Birth
	sessionAt  uint64
	evidenceAt uint64
	parentAt   uint64
	exited     uint64
	signalAt   uint64 // of the latest stop, or of what ended it

	looks
	used   struct{ maxRSS, busy, cpuTime uint64 } // see Use.Busy, and what it had used then
	mark   uint64                                 // epoch of the pass that saw it
	status uint32
	flags  uint32
	need   uint32 // children that are held
	hops   uint32
	load   float32

	birthComm Comm

	state    State
	evidence Evidence
	source   uint8
	standing standing

	held        bool // present, or a held child needs it
	known       bool // a Birth, an Exec or a snapshot reported it
	birth       bool // a Birth reported it
	exit        bool // an Exit reported its end
	reaped      bool // a Reaped reported its reaping
	inferred    bool // its end was inferred from a snapshot or the reuse of its PID
	reconciled  bool
	cloneParent bool
	unseen      bool // it had run for some time before it was entered
	dirty       bool // on the list of changes
}

// present reports whether the kernel still has n, as far as is known. A process that
// only late events named is not present: nothing would ever end it.
func (n *node) present() bool {
	return n.known && (n.state == Live || n.state == Zombie)
}

// orphan reports whether n is live and its creator dead. The root of a session is not
// an orphan: its lineage begins with it.
func (n *node) orphan() bool {
	return n.state == Live && n.evidence != Root && n.creator != nil && n.creator.state.over()
}

// newest reports whether no younger process has n's PID.
func (n *node) newest() bool {
	for m := n.newer; m != nil; m = m.newer {
		if m.id.PID == n.id.PID {
			return false
		}
	}
	return true
}

func (n *node) sessionID() SessionID {
	if n.session == nil {
		return 0
	}
	return n.session.id
}

func (n *node) view() Node {
	v := Node{
		ID: n.id, Session: n.sessionID(), Evidence: n.evidence, Source: n.source,
		Creator: n.creatorID, Parent: n.parent,
		State: n.state, Orphan: n.orphan(),
		Looks: n.Looks,
		Born:  n.id.Start, Exited: n.exited,
		Reaped: n.reaped, StatusKnown: n.exit, Status: n.status, Flags: n.flags,
		CPUTime: n.cpuTime, MaxRSS: n.used.maxRSS,
		Use:        Use{Busy: max(n.used.busy, n.id.Start), RSS: n.rss, Load: float64(n.load)},
		Reconciled: n.reconciled, Ghost: !n.known, Hops: n.hops,
		Commands: n.commands(), Claim: n.claim, Container: n.container, Signal: n.signal,
	}
	if n.creator != nil {
		v.Under = n.creator.id
	}
	if img := n.imageAt(^uint64(0)); img != nil {
		v.Exe, v.Argv, v.ArgvTruncated = img.Exe, img.Argv, img.Truncated
	}
	if len(n.moves) > 0 {
		v.Reparents = append([]Move(nil), n.moves...)
	}
	return v
}

// list is a doubly linked list through links[k] of its nodes. The zero value
// is a list of siblings.
type list struct {
	head, tail *node
	n          int32
	k          uint8
}

// insert puts n behind at, or first if at is nil.
func (l *list) insert(n, at *node) {
	next := l.head
	if at != nil {
		next = at.links[l.k].next
		at.links[l.k].next = n
	} else {
		l.head = n
	}
	if next != nil {
		next.links[l.k].prev = n
	} else {
		l.tail = n
	}
	n.links[l.k].prev, n.links[l.k].next = at, next
	l.n++
}

func (l *list) remove(n *node) {
	link := &n.links[l.k]
	if link.prev != nil {
		link.prev.links[l.k].next = link.next
	} else {
		l.head = link.next
	}
	if link.next != nil {
		link.next.links[l.k].prev = link.prev
	} else {
		l.tail = link.prev
	}
	link.prev, link.next = nil, nil
	l.n--
}

// compare orders processes by start, then by PID.
func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Start, other.Start), cmp.Compare(id.PID, other.PID))
}

// names reports whether id can name a process: both halves are known.
func (id ID) names() bool { return id.PID != 0 && id.Start != 0 }
