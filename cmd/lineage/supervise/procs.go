//go:build linux

package supervise

import (
	"os"
	"strconv"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const proc = procfs.FS("/proc")

// relative is a process as /proc shows it. Its strings may be hostile.
type relative struct {
	pid, parent int
	start       uint64 // clock ticks since boot
	comm        string
	state       string // the kernel's letter
	zombie      bool
}

// processes returns everything that /proc shows, not as one snapshot.
func processes() []relative {
	dir, err := os.Open(string(proc))
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
	s, err := proc.Stat(uint32(pid))
	if err != nil {
		return relative{}, false
	}
	return relative{
		pid: int(s.PID), parent: int(s.Parent), start: s.Start, comm: s.Comm, state: string(rune(s.State)), zombie: s.Zombie(),
	}, true
}

// argv is the command line of pid, nil if it has none.
func argv(pid int) []string {
	b, _ := proc.Cmdline(uint32(pid))
	return procfs.SplitArgv(b)
}
