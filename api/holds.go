package api

// Port is a listening socket, with a process that has it open.
type Port struct {
	Proto   string `json:"proto"`              // tcp, tcp6, udp, udp6, unix
	Addr    string `json:"addr"`               // of unix: its name
	Port    int    `json:"port,omitempty"`     // not of unix
	PID     int    `json:"pid,omitempty"`      // absent: unknown
	StartNS U64    `json:"start_ns,omitempty"` // of that process
	Netns   uint64 `json:"netns,omitempty"`    // inode number of the network namespace
	// Connections is how many of them are in TIME_WAIT, where that is asked.
	Connections int `json:"connections,omitempty"`
}

// Lock is a lock on a file, with a process that has it.
type Lock struct {
	Type    string `json:"type"`               // flock, posix, ofd, lease; file: a lock file held open
	Mode    string `json:"mode,omitempty"`     // read, write
	Path    string `json:"path"`               // as the process sees it
	PID     int    `json:"pid,omitempty"`      // of a process that holds it
	StartNS U64    `json:"start_ns,omitempty"` // of that process
	Waiting []int  `json:"waiting,omitempty"`  // PIDs
}

// File is an open file.
type File struct {
	Path   string `json:"path"`             // as the process sees it
	Access string `json:"access,omitempty"` // read, write, read_write
	PID    int    `json:"pid"`              // of the process that has it open
}

// Holds is what a process has that others may wait for. Unknown says what
// could not be read: then there may be more.
type Holds struct {
	Ports   []Port   `json:"ports,omitempty"`   // that it listens on
	Locks   []Lock   `json:"locks,omitempty"`   // that it holds or waits for
	Files   []File   `json:"files,omitempty"`   // only of the path that was asked for
	Unknown []string `json:"unknown,omitempty"` // what could not be read
}

// Holders are the processes that listen on a port or hold a path: one item for each
// process, with only what was asked for in Holds.
type Holders struct {
	Head
	Items []Why `json:"items"` // one for each process
	// TimeWait is how many connections of the port are in TIME_WAIT.
	TimeWait int `json:"time_wait,omitempty"`
	// Hidden is how many holders the caller may not know.
	Hidden  int      `json:"hidden,omitempty"`
	Unknown []string `json:"unknown,omitempty"` // what could not be read
}
