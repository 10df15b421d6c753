//go:build linux

package supervise

import (
	"os"
	"strconv"
	"strings"
)

// relative is a process as /proc shows it. Its strings are hostile.
type relative struct {
	pid, parent int
	start       uint64 // clock ticks since boot
	comm        string
	state       string // the kernel's letter
	zombie      bool
}

// processes is all that /proc shows, one read after the other.
func processes() []relative {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []relative
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// readProcess reads one; not ok if it is gone.
func readProcess(pid int) (relative, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return relative{}, false
	}
	return parseStat(string(b))
}

// Fields of /proc/PID/stat behind the command: the state, field 3 of
// proc_pid_stat(5), is the first.
const (
	statState   = 0
	statParent  = 1  // ppid, 4
	statThreads = 17 // num_threads, 20
	statStart   = 19 // starttime, 22
)

// parseStat reads a /proc/PID/stat. The command is in parentheses and may
// contain any, so the last one ends it. A leader that has exited is Z while
// its threads live: then the process is none.
func parseStat(s string) (p relative, ok bool) {
	number, rest, open := strings.Cut(s, " (")
	at := strings.LastIndexByte(rest, ')')
	if !open || at < 0 {
		return relative{}, false
	}
	p.comm = rest[:at]
	fields := strings.Fields(rest[at+1:])
	if len(fields) <= statStart {
		return relative{}, false
	}
	var errs [4]error
	var threads int
	p.pid, errs[0] = strconv.Atoi(number)
	p.parent, errs[1] = strconv.Atoi(fields[statParent])
	threads, errs[2] = strconv.Atoi(fields[statThreads])
	p.start, errs[3] = strconv.ParseUint(fields[statStart], 10, 64)
	for _, err := range errs {
		if err != nil {
			return relative{}, false
		}
	}
	p.state = fields[statState]
	p.zombie = (p.state == "Z" || p.state == "X") && threads < 2
	return p, true
}

// argv is the command line of pid, nil if there is none.
func argv(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(b) == 0 {
		return nil
	}
	if len(b) > maxArgv {
		b = b[:maxArgv]
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// maxArgv is how many bytes of a command line are in a receipt.
const maxArgv = 4096
