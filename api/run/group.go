//go:build linux

package run

import (
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/lineage-ebpf/lineage/api"
)

const groupPause = 10 * time.Millisecond

// leadGroup puts the command into a process group of its own.
func (c *Cmd) leadGroup() {
	a := c.sysProcAttr()
	if !a.Setsid { // setsid makes one
		a.Setpgid, a.Pgid = true, 0
	}
	c.SysProcAttr = a
}

// endGroup waits for the command's exit and ends the rest of its group. The
// command stays a zombie meanwhile, so that no other process or group can get its
// number.
func (c *Cmd) endGroup() {
	awaitExit(c.Process.Pid)
	began := time.Now()
	if len(c.groupMembers()) > 0 {
		c.signalGroup()
	}
	c.group.Lock()
	c.freed = true
	c.group.Unlock()
	c.report = &api.Report{
		Head: api.Head{Schema: api.Schema, Kind: "report"}, State: api.StateEnded,
		Verdict: api.VerdictUnknown, VerdictWhy: "only the process group was ended: a process that left it is not known",
		DurationMS: float64(time.Since(began).Microseconds()) / 1000, Processes: []api.Outcome{},
	}
}

// signalGroup sends SIGTERM to the group, and SIGKILL if one of its processes is alive
// when the grace is over.
func (c *Cmd) signalGroup() {
	grace := c.Grace
	if grace == 0 {
		grace = initDefault
	}
	if grace > 0 {
		c.killGroup(syscall.SIGTERM)
	}
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(groupPause) {
		if len(c.groupMembers()) == 0 {
			return
		}
	}
	c.killGroup(syscall.SIGKILL)
}

// killGroup sends a signal to the group, unless its number is already free.
func (c *Cmd) killGroup(sig syscall.Signal) {
	c.group.Lock()
	defer c.group.Unlock()
	if !c.freed {
		_ = syscall.Kill(-c.Process.Pid, sig)
	}
}

// groupMembers are the live processes of the group.
func (c *Cmd) groupMembers() []int {
	group := strconv.Itoa(c.Process.Pid)
	return processes(func(fields []string) bool { return fields[2] == group && fields[0] != "Z" && fields[0] != "X" })
}

// Of waitid(2).
const (
	pPID    = 1
	wExited = 4
	wNoWait = 0x01000000
)

// awaitExit returns when a child has exited, and leaves it a zombie.
func awaitExit(pid int) {
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
