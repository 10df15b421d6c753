package lineage

type Sender uint8

// The kinds of senders.
const (
	NoSender Sender = iota
	ByProcess
	ByKernel     // a terminal, a timer, a limit, or not known
	ByFault      // the process itself, by what it executed
	ByOOM        // the OOM killer
	ByTimer      // a timer or asynchronous I/O, as the signal says: its sender may claim that
	ByLineage    // the end of its session
	ByCgroupKill // a process, by a write to cgroup.kill
	ByParent     // its parent, by its exit: the process had asked for that
	ByTracer     // its tracer, by its exit
	ByNamespace  // PID 1 of its PID namespace, by its exit
	ByLimit      // it used up its CPU time
	ByIO         // a file that signals it
)

func (s Sender) String() string {
	return [...]string{"", "process", "kernel", "fault", "oom", "timer", "lineage",
		"cgroup_kill", "parent", "tracer",
		"pid_namespace", "limit", "io"}[min(s, ByIO)]
}

// ByAnother reports whether a process is behind the signal: Signal.By.
func (s Sender) ByAnother() bool { return s == ByProcess || s >= ByCgroupKill && s <= ByNamespace }

// Signal is a signal that a process got, and who sent it. It is never changed.
type Signal struct {
	Number  uint8
	Sender  Sender    `json:",omitzero"`
	Time    uint64    // boottime ns at which it was sent
	By      ID        `json:",omitzero"`  // of a process
	Session SessionID `json:",omitzero"`  // of By, at that time; 0: none
	UID     uint32    `json:",omitzero"`  // of By, effective
	Comm    string    `json:",omitzero"`  // of By, which chooses it: any bytes
	Handled bool      `json:",omitzero"`  // the process had a handler
	Raised  bool      `json:",omitzero"`  // and later sent the same signal to itself
	Passed  bool      `json:",omitzero"`  // an owner of a session got it first, and passed it on
	OOM     *OOM      `json:",omitempty"` // ByOOM; nil: nothing is known
}

// OOM is why the OOM killer ended a process. It is never changed.
type OOM struct {
	Of      string    `json:",omitzero"` // what had no memory left: session, outer, host; "": not known
	Session SessionID `json:",omitzero"` // whose limit it was
	Name    string    `json:",omitzero"` // of Session
	Limit   uint64    `json:",omitzero"` // of Session, in bytes
	Peak    uint64    `json:",omitzero"` // of all its members; 0: not known
	Had     uint64    `json:",omitzero"` // the process, at most, in bytes
}
