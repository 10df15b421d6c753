//go:build linux

package status

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// The test binary also runs as a canary.
func init() {
	if len(os.Args) > 1 && os.Args[1] == CanaryArg {
		CanaryMain(os.Args[2:])
	}
}

func started(t *testing.T) *Canary {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := StartCanary([]string{"/proc/self/exe", CanaryArg})
	require.NoError(t, err)
	return c
}

func grow(t *testing.T) (c *Canary, middle, orphan int) {
	t.Helper()
	c = started(t)
	require.NoError(t, c.Release())
	middle, orphan, err := c.Family(t.Context())
	require.NoError(t, err)
	return c, middle, orphan
}

// gone waits until a process that is not our child is dead.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	require.NoError(t, err)
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			t.Errorf("pid %d lives on: %v", pid, err)
		}
		return
	}
}

func TestTree(t *testing.T) {
	c, middle, orphan := grow(t)
	gone(t, middle)
	b, err := os.ReadFile("/proc/" + itoa(orphan) + "/stat")
	require.NoError(t, err)
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if ppid, sid := fields[1], fields[3]; ppid == itoa(middle) || ppid == itoa(c.PID()) || sid != itoa(middle) {
		t.Errorf("parent %s, POSIX session %s; middle %d, root %d", ppid, sid, middle, c.PID())
	}
	args, err := os.ReadFile("/proc/" + itoa(orphan) + "/cmdline")
	if err != nil || !strings.HasSuffix(string(args), "\x00last\x00") {
		t.Errorf("%q %v", args, err)
	}
	c.Close()
	gone(t, orphan)
}

// TestLeash: the root dies with its starter, and the orphan when its standard input
// ends, even without Close.
func TestLeash(t *testing.T) {
	c, _, orphan := grow(t)
	c.leash.Close()
	gone(t, orphan)
	c.Close()
}

// TestNothingWithoutRelease: a root that is closed without Release has started nothing.
func TestNothingWithoutRelease(t *testing.T) {
	c := started(t)
	c.leash.Close()
	if _, _, err := c.Family(t.Context()); err == nil {
		t.Error("it has a family")
	}
	c.Close()
}

func TestFamilyGivesUp(t *testing.T) {
	c := started(t)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Family(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestByHand: a user who types the hidden mode gets a process that exits at once.
func TestByHand(t *testing.T) {
	for _, args := range [][]string{{}, {"root"}, {"orphan"}, {"last"}, {"x"}} {
		cmd := exec.Command("/proc/self/exe", append([]string{CanaryArg}, args...)...)
		if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
