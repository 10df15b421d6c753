//go:build linux

package procfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FS is where procfs is mounted. What it says about a PID holds only if the caller
// confirms afterwards that the PID is still the same process. Its strings are hostile.
// Reads are [Bounded], all of one process together.
type FS string

// InitPIDNamespace is the link target for the initial PID namespace (PROC_PID_INIT_INO).
const InitPIDNamespace = "pid:[4026531836]"

const (
	// MaxFile bounds how much of a file is read, in bytes.
	MaxFile = 64 << 10
	// MaxArgv bounds a command line that is only shown, in bytes.
	MaxArgv = 4 << 10
)

var errMalformed = errors.New("malformed")

func (fs FS) Path(pid uint32, name string) string {
	return filepath.Join(string(fs), strconv.FormatUint(uint64(pid), 10), name)
}

func (fs FS) Key(pid uint32) Key { return KeyOf(fs.Path(pid, "")) }

// Read returns a file of a process, cut at limit bytes.
func (fs FS) Read(pid uint32, name string, limit int64) ([]byte, error) {
	return Bounded(fs.Key(pid), func() ([]byte, error) {
		f, err := os.Open(fs.Path(pid, name))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, limit))
	})
}

// Link returns the target of a link of a process, such as exe and cwd; "" if it cannot
// be read.
func (fs FS) Link(pid uint32, name string) string {
	to, err := fs.readlink(pid, name)
	if err != nil {
		return ""
	}
	return to
}

func (fs FS) readlink(pid uint32, name string) (string, error) {
	return Bounded(fs.Key(pid), func() (string, error) { return os.Readlink(fs.Path(pid, name)) })
}

// PIDNamespace returns the link that names the PID namespace of a process.
func (fs FS) PIDNamespace(pid uint32) (string, error) {
	return fs.readlink(pid, "ns/pid")
}

// Comm returns the name of the process's leader, "" if it is gone. It is not [Bounded]: the kernel takes no lock of the
// process for it that is held while the process waits.
func (fs FS) Comm(pid uint32) string {
	b, err := os.ReadFile(fs.Path(pid, "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// Cmdline returns the command line as the kernel has it, cut at MaxArgv bytes.
func (fs FS) Cmdline(pid uint32) (argv []byte, truncated bool) {
	b, err := fs.Read(pid, "cmdline", MaxArgv+1)
	if err != nil {
		return nil, false
	}
	if len(b) > MaxArgv {
		return b[:MaxArgv], true
	}
	return b, false
}

// Cgroup returns the cgroup v2 path, "" if there is none.
func (fs FS) Cgroup(pid uint32) string {
	b, err := fs.Read(pid, "cgroup", MaxFile)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// Status has fields of /proc/PID/status (proc_pid_status(5)).
type Status struct {
	Name        string
	TGID        uint32   // of a thread: its process
	Tracer      uint32   // the thread that traces it, 0: none
	UIDs        []uint32 // real, effective, saved, filesystem
	NSPID       uint32   // in the innermost PID namespace
	CoreDumping bool
	Pending     uint64 // signals of the thread and of the process, bit 0 is signal 1
}

// Status returns the status of a process. With an error it has the fields that could be read.
func (fs FS) Status(pid uint32) (s Status, err error) {
	b, err := fs.Read(pid, "status", MaxFile)
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		words := strings.Fields(value)
		switch key {
		case "Name":
			s.Name = value
		case "Tgid":
			s.TGID = first(words)
		case "TracerPid":
			s.Tracer = first(words)
		case "Uid":
			s.UIDs = numbers(words)
		case "NSpid":
			if n := numbers(words); len(n) > 0 {
				s.NSPID = n[len(n)-1]
			}
		case "CoreDumping":
			s.CoreDumping = value == "1"
		case "SigPnd", "ShdPnd":
			if set, err := strconv.ParseUint(value, 16, 64); err == nil {
				s.Pending |= set
			}
		}
	}
	if len(s.UIDs) != 4 {
		return s, fmt.Errorf("read status of pid %d: %w", pid, errMalformed)
	}
	return s, nil
}

func first(words []string) uint32 {
	if n := numbers(words); len(n) > 0 {
		return n[0]
	}
	return 0
}

func numbers(words []string) []uint32 {
	var all []uint32
	for _, w := range words {
		n, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return nil
		}
		all = append(all, uint32(n))
	}
	return all
}

// OfHost reports whether a process is root's, in the same user and PID namespaces as self.
func (fs FS) OfHost(pid, self uint32) bool {
	st, err := fs.Status(pid)
	if err != nil || !Ours(st.UIDs[0]) { // atd has the others of a user without rights, between jobs
		return false
	}
	for _, namespace := range []string{"ns/user", "ns/pid"} {
		if fs.Link(pid, namespace) != fs.Link(self, namespace) {
			return false
		}
	}
	return true
}

// Base is the name of a file, "" if there is none.
func Base(path string) string {
	path = strings.TrimSuffix(path, " (deleted)") // an upgrade replaces what runs
	if path == "" {
		return ""
	}
	if name, ok := strings.CutPrefix(path, "/memfd:"); ok {
		name, _, _ = strings.Cut(name, ":")
		return name
	}
	return filepath.Base(path)
}
