//go:build linux

package procfs

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tick is the unit of [Stat].Start, USER_HZ of the kernel on all supported platforms.
const Tick = time.Second / 100

// Stat has fields of /proc/PID/stat (proc_pid_stat(5)).
type Stat struct {
	PID     uint32
	Comm    string
	State   byte   // the letter of the leader
	Parent  uint32 // the real parent, not the creator
	SID     int32  // POSIX session; -1 if the process is being released
	TTY     int64  // the device number of the controlling terminal, 0: none
	Threads int
	Start   uint64 // in units of Tick since boot
	// Loaded reports that the process is not within an exec, during which its
	// environment reads as empty.
	Loaded bool
}

// Positions after the command, which is followed by field 3 of the manual page.
const (
	statState     = 0
	statParent    = 1
	statSID       = 3
	statTTY       = 4
	statThreads   = 17
	statStart     = 19
	statStartCode = 23
)

func (fs FS) Stat(pid uint32) (Stat, error) {
	b, err := fs.Read(pid, "stat", MaxFile)
	if err != nil {
		return Stat{}, err
	}
	s, ok := parseStat(string(b))
	if !ok {
		return Stat{}, fmt.Errorf("read stat of pid %d: %w", pid, errMalformed)
	}
	return s, nil
}

// Stats returns the stats of all processes that are shown, in the order of their PIDs. They are
// not one snapshot.
func (fs FS) Stats() ([]Stat, error) {
	dir, err := os.Open(string(fs))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Stat
	for _, name := range names {
		if pid, err := strconv.ParseUint(name, 10, 32); err == nil {
			if s, err := fs.Stat(uint32(pid)); err == nil { // else it is gone
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b Stat) int { return cmp.Compare(a.PID, b.PID) })
	return all, nil
}

// ByParent returns the same by the processes' parents.
func (fs FS) ByParent() (map[uint32][]Stat, error) {
	all, err := fs.Stats()
	children := make(map[uint32][]Stat)
	for _, s := range all {
		children[s.Parent] = append(children[s.Parent], s)
	}
	return children, err
}

// parseStat parses a stat. The command is in parentheses and may contain anything, such
// as ") R 1": the last parenthesis ends it.
func parseStat(text string) (s Stat, ok bool) {
	pid, rest, open := strings.Cut(text, " (")
	at := strings.LastIndexByte(rest, ')')
	if !open || at < 0 {
		return Stat{}, false
	}
	s.Comm = rest[:at]
	fields := strings.Fields(rest[at+1:])
	if len(fields) <= statStart {
		return Stat{}, false
	}
	ok = true
	number := func(text string, bits int) uint64 {
		n, err := strconv.ParseUint(text, 10, bits)
		ok = ok && err == nil
		return n
	}
	s.PID = uint32(number(pid, 32))
	s.State = fields[statState][0]
	s.Parent = uint32(number(fields[statParent], 32))
	s.Threads = int(number(fields[statThreads], 31))
	s.Start = number(fields[statStart], 64)
	sid, err1 := strconv.ParseInt(fields[statSID], 10, 32)
	tty, err2 := strconv.ParseInt(fields[statTTY], 10, 64)
	s.SID, s.TTY = int32(sid), tty
	// An exec sets the address of the code after it has set the environment, for
	// programs that are not scripts (fs/binfmt_elf.c). A reader without permission to
	// know the address gets 1.
	s.Loaded = len(fields) <= statStartCode || fields[statStartCode] != "0"
	return s, ok && err1 == nil && err2 == nil
}

// Zombie reports that the whole process has exited. A leader that has exited while its
// threads live is in state Z, too.
func (s *Stat) Zombie() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads < 2 }
