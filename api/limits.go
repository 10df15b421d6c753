package api

// Limits are what the kernel holds all members of a session to together, nested sessions included, by a
// cgroup (version 2) of the session's own. 0: no limit.
type Limits struct {
	MemoryBytes     int64   `json:"memory_bytes,omitempty"`      // above it the kernel ends the largest process of the session: memory.max
	MemoryHighBytes int64   `json:"memory_high_bytes,omitempty"` // above it members are slowed down: memory.high
	CPUs            float64 `json:"cpus,omitempty"`              // of CPU time per second: cpu.max; 1.5 is one and a half
	Tasks           int     `json:"tasks,omitempty"`             // threads and processes; above it forks fail: pids.max
	IOWeight        int     `json:"io_weight,omitempty"`         // share of block I/O, others have 100: io.weight
	// IfPossible opens the session without the limits that this host cannot set. Only in a request.
	IfPossible bool `json:"if_possible,omitempty"`
	// Unset has why limits are not in force, or have no effect. Only in replies.
	Unset []string `json:"unset,omitempty"`
	// Unlimited is how many members are outside of the session's cgroup.
	Unlimited int `json:"unlimited,omitempty"`
}

// Any reports whether there is a limit.
func (l *Limits) Any() bool {
	return l != nil && (l.MemoryBytes != 0 || l.MemoryHighBytes != 0 || l.CPUs != 0 || l.Tasks != 0 || l.IOWeight != 0)
}

// Account is what the members of a session have used, those of nested sessions included, as their cgroup counts it.
type Account struct {
	CPUSeconds      float64 `json:"cpu_seconds"`                 // user and system time: cpu.stat
	MemoryBytes     uint64  `json:"memory_bytes,omitempty"`      // in use at the last look, without inactive page cache: memory.current
	MemoryPeakBytes uint64  `json:"memory_peak_bytes,omitempty"` // with page cache and kernel memory: memory.peak; absent: no memory controller
	ReadBytes       uint64  `json:"read_bytes,omitempty"`        // from block devices: io.stat
	WrittenBytes    uint64  `json:"written_bytes,omitempty"`     // to block devices: io.stat
	TasksPeak       int     `json:"tasks_peak,omitempty"`        // pids.peak
	OOMKills        int     `json:"oom_kills,omitempty"`         // members that the OOM killer ended: memory.events
	SinceMove       bool    `json:"since_move,omitempty"`        // members ran before they were moved into the cgroup: what they had used is not in it
	Sampled         bool    `json:"sampled,omitempty"`           // MemoryPeakBytes is the largest of the daemon's samples (before Linux 5.19)
}

// Moved is a move of a member to another cgroup (version 2).
type Moved struct {
	Cgroup  string   `json:"cgroup,omitempty"`  // its path, cut at 255 bytes; absent: not known
	Outside bool     `json:"outside,omitempty"` // of the session's cgroup: its limits do not hold there
	By      *Process `json:"by,omitempty"`      // who moved it, itself included; absent: not known, a look found it there
}
