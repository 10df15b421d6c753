//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// reachTime is how long a dead, stopped or absent daemon may delay an answer. A healthy
// daemon answers the first request within a few milliseconds.
const reachTime = 250 * time.Millisecond

// busyTime is how long a running daemon may take: in a fork storm it may be slow, and
// that is when an end is needed.
const busyTime = 5 * time.Second

// daemon is the way to the daemon. Each call connects again: it may come and go while
// the agent runs.
type daemon struct {
	socket string
	// told is the file that records that the agent was told of a missing daemon. It is
	// "" without XDG_RUNTIME_DIR: then only this process remembers it.
	told string

	mu       sync.Mutex
	wasTold  bool
	watching int // the process whose session is the agent's: our own
}

func newDaemon(socket string) *daemon {
	d := &daemon{socket: socket, watching: os.Getpid()}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		d.told = filepath.Join(dir, "lineage", "mcp-unreachable")
	}
	return d
}

// errSilent is the answer to every call without a daemon except the first, which says
// what is wrong.
var errSilent = errors.New("lineage does not answer; continue without it")

// errOutside: these tools are about the session of the agent, and it has none.
var errOutside = errors.New("this agent is not in a lineage session, so nothing is known of its processes; " +
	"an operator can start it with: lineage run -- AGENT, or adopt it: lineage adopt PID")

// ask connects, finds the session that we are a member of, and calls f.
func (d *daemon) ask(ctx context.Context, f func(c api.Client, session string) error) error {
	reaching, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	c, err := api.Dial(reaching, d.socket)
	if err != nil && reaching.Err() != nil && d.runs() {
		busy, cancel := context.WithTimeout(ctx, busyTime)
		defer cancel()
		c, err = api.Dial(busy, d.socket)
	}
	if err != nil {
		return d.unreachable(err, reaching.Err() != nil)
	}
	defer c.Close()
	d.reached()
	self, err := c.Process(ctx, fmt.Sprint(d.watching))
	if err != nil {
		return err
	}
	if self.Session == "" {
		return errOutside
	}
	return f(c, self.Session)
}

// runs: the process that listens is alive and not stopped. False for a service manager:
// behind its socket the daemon may be dead or stopped.
func (d *daemon) runs() bool {
	conn, err := net.DialTimeout("unix", d.socket, reachTime/10)
	if err != nil {
		return false
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	var peer *syscall.Ucred
	_ = raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || peer.Pid <= 1 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", peer.Pid))
	_, after, found := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return err == nil && found && !strings.ContainsAny(after[:1], "TtZX")
}

// unreachable says what is wrong once, and not again after the agent was restarted.
func (d *daemon) unreachable(err error, late bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	told := d.wasTold
	if _, statErr := os.Stat(d.told); d.told != "" && statErr == nil {
		told = true
	}
	d.wasTold = true
	if told {
		return errSilent
	}
	if d.told != "" && os.MkdirAll(filepath.Dir(d.told), 0o700) == nil {
		_ = os.WriteFile(d.told, []byte(d.socket+"\n"), 0o600)
	}
	if late {
		err = fmt.Errorf("the daemon at %s does not answer within %v", d.socket, reachTime)
	}
	return fmt.Errorf("%w. Your processes run on, but lineage cannot list or end them now; continue without it. This is said once", err)
}

func (d *daemon) reached() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wasTold = false
	if d.told != "" {
		_ = os.Remove(d.told)
	}
}
