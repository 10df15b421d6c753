package lineage

// Sender is what kind of sender a signal has.
type Sender uint8

// The kinds of senders.
const (
	NoSender  Sender = iota
	ByProcess        // also where the kernel acts for a process, as on a write to cgroup.kill
	ByKernel         // a terminal, a resource limit, a PID namespace that ends
	ByFault          // the process itself, by what it executed
	ByOOM            // the OOM killer
	ByTimer          // a timer or asynchronous I/O, as the signal says: its sender may claim that
	ByLineage        // the end of its session
)

func (s Sender) String() string {
	return [...]string{"", "process", "kernel", "fault", "oom", "timer", "lineage"}[min(s, ByLineage)]
}

// Signal is a signal that a process got, and who sent it. It is never changed.
type Signal struct {
	Number  uint8
	Sender  Sender    `json:",omitzero"`
	Time    uint64    // boottime ns at which it was sent
	By      ID        `json:",omitzero"` // ByProcess
	Session SessionID `json:",omitzero"` // of By, at that time; 0: none
	UID     uint32    `json:",omitzero"` // of By, effective
	Comm    string    `json:",omitzero"` // of By, which chooses it: any bytes
	Handled bool      `json:",omitzero"` // the process had a handler
	Raised  bool      `json:",omitzero"` // and later sent the same signal to itself
	Passed  bool      `json:",omitzero"` // an owner of a session got it first, and passed it on
}
