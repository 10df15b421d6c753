//go:build linux

package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

const (
	lookPause   = 5 * time.Millisecond
	createTime  = 30 * time.Second // lineage run gives up then
	killPause   = 100 * time.Millisecond
	initDefault = 5 * time.Second // the grace of lineage init
)

// ErrNoSession is the error of [Cmd.Session] under [Subreaper].
var ErrNoSession = errors.New("run: the command has no session")

// Session asks the daemon for the command's session. Just after Start it waits
// until the session exists.
func (c *Cmd) Session() (*api.Session, error) {
	if c.guarantee != Session {
		return nil, ErrNoSession
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTime)
	defer cancel()
	client, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if c.report != nil {
		return client.Session(ctx, c.report.Session)
	}
	return c.find(ctx, client)
}

// dial waits for the daemon that lineage run may be starting.
func (c *Cmd) dial(ctx context.Context) (api.Client, error) {
	for {
		client, err := api.Dial(ctx, c.socket())
		if err == nil || !absent(err) || !c.again(ctx) {
			return client, err
		}
	}
}

// again waits a little; false: neither the daemon nor the session will come.
func (c *Cmd) again(ctx context.Context) bool {
	select {
	case <-c.exited:
	case <-ctx.Done():
	case <-time.After(lookPause):
		return true
	}
	return false
}

// find waits for the session that lineage run owns.
func (c *Cmd) find(ctx context.Context, client api.Client) (*api.Session, error) {
	for {
		list, err := client.Sessions(ctx, "live", "")
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.Owner != nil && s.Owner.PID == c.Process.Pid {
				return s, nil
			}
		}
		if !c.again(ctx) {
			return nil, cmp.Or(ctx.Err(), ErrNoSession)
		}
	}
}

// End begins the end of everything that the command started: SIGTERM, and
// SIGKILL when Grace is over. Wait says when it is done.
func (c *Cmd) End() error {
	if c.exited == nil {
		return errors.New("run: not started")
	}
	go c.end()
	return nil
}

// end returns when the end has begun, or if it takes several steps when the
// command has exited. If the daemon cannot be asked, lineage run is killed: it is the
// session's owner, and the kernel ends the session when its owner dies.
func (c *Cmd) end() {
	if c.guarantee != Session {
		c.endInit()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	if err := c.askEnd(ctx); err != nil {
		_ = c.Process.Kill()
	}
}

func (c *Cmd) askEnd(ctx context.Context) error {
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := c.find(ctx, client)
	if err != nil {
		return err
	}
	_, err = client.End(ctx, s.ID, api.EndRequest{Now: c.Grace < 0})
	return err
}

// endInit makes lineage init forward SIGTERM. When the grace is over, the command is
// killed, and a second SIGTERM ends the grace of its leftovers.
func (c *Cmd) endInit() {
	_ = c.Process.Signal(syscall.SIGTERM)
	grace := cmp.Or(c.Grace, initDefault)
	select {
	case <-c.exited:
		return
	case <-time.After(max(grace, 0)):
	}
	c.killChildren()
	select {
	case <-c.exited:
		return
	case <-time.After(killPause):
	}
	_ = c.Process.Signal(syscall.SIGTERM)
}

// killChildren kills the children of lineage init: the command, and orphans of what it
// started. A child is opened before its fields are checked, so that its PID cannot be
// reused in between.
func (c *Cmd) killChildren() {
	files, _ := filepath.Glob("/proc/[1-9]*/stat")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || parent(file) != c.Process.Pid {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if parent(file) == c.Process.Pid {
			_ = p.Kill()
		}
		_ = p.Release()
	}
}

// parent reads a /proc/PID/stat: its state and its parent follow the name, which may contain
// any byte. It is 0 of a process that is gone.
func parent(file string) (pid int) {
	b, _ := os.ReadFile(file)
	var state string
	_, _ = fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &pid)
	return pid
}

func (c *Cmd) receiptFile() string { return filepath.Join(c.receipt, "receipt.json") }

// readReport reads what lineage wrote. If lineage was killed, the session may still be
// ending: then the report comes from the daemon.
func (c *Cmd) readReport() *api.Report {
	report := new(api.Report)
	b, err := os.ReadFile(c.receiptFile())
	if err == nil && json.Unmarshal(b, report) == nil {
		return report
	}
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok ||
		!status.Signaled() || c.guarantee != Session {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), api.MaxWait)
	defer cancel()
	client, err := api.Dial(ctx, c.socket())
	if err != nil {
		return nil
	}
	defer client.Close()
	list, err := client.Sessions(ctx, "all", "")
	if err != nil {
		return nil
	}
	for i := range list.Items {
		s := &list.Items[i]
		if s.Owner == nil || s.Owner.PID != c.Process.Pid || s.Started == nil ||
			s.Started.Before(c.started) {
			continue
		}
		if report, err := client.Report(ctx, s.ID, api.MaxWait); err == nil {
			return report
		}
	}
	return nil
}
