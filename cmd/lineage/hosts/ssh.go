package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
)

// Failure is why a host could not be queried, in the words of ssh or of the remote command.
type Failure struct{ why string }

func (f *Failure) Error() string { return f.why }

// Timeout and Temporary make it a net.Error, which package api reports as a daemon that
// cannot be reached.
func (f *Failure) Timeout() bool   { return false }
func (f *Failure) Temporary() bool { return false }

// arguments of ssh before the host. Neither an agent nor a port is forwarded, and ssh
// asks nothing on the terminal: many hosts would ask at once. Everything else follows the
// user's configuration and known hosts.
var arguments = []string{"-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "--"}

func Dial(ctx context.Context, host string) (api.Client, error) {
	return api.DialOver(ctx, host, func(context.Context) (net.Conn, error) { return connect(host) })
}

// conn is a connection over the stdin and stdout of an ssh.
type conn struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr tail
	wait   func() error
	why    atomic.Pointer[Failure] // why ssh exited
	closed atomic.Bool             // by us
}

func connect(host string) (net.Conn, error) {
	c := &conn{cmd: exec.Command("ssh", append(arguments[:len(arguments):len(arguments)],
		host, "lineage", "stdio")...)}
	c.cmd.Stderr = &c.stderr
	// Ctrl-C is for this command only, which decides what happens to its connections.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = time.Second // a child of ssh may hold its stderr open
	// Not StdoutPipe: Wait would close it before everything is read.
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, &Failure{err.Error()}
	}
	defer theirs.Close()
	c.out, c.cmd.Stdout = out, theirs
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		urgent.Relax() // ssh, and what it starts, is not real-time
		err = c.cmd.Start()
	}
	if err != nil {
		out.Close()
		return nil, &Failure{fmt.Sprintf("cannot run ssh: %v", err)}
	}
	c.wait = sync.OnceValue(c.cmd.Wait)
	return c, nil
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.out.Read(b)
	if n == 0 && err != nil {
		err = c.failure(err)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.in.Write(b)
	if err != nil {
		err = c.failure(err)
	}
	return n, err
}

// failure says why ssh exited, if that caused err. One direction may have noticed it, and
// the connection may be closed, before the other notices.
func (c *conn) failure(err error) error {
	if f := c.why.Load(); f != nil {
		return f
	}
	if c.closed.Load() {
		return err
	}
	c.in.Close()
	gone := c.wait()
	exit, ok := errors.AsType[*exec.ExitError](gone)
	if !ok {
		return err
	}
	text := bytes.TrimSpace(c.stderr)
	why := strings.TrimSpace(string(text[bytes.LastIndexAny(text, "\r\n")+1:]))
	switch code := exit.ExitCode(); {
	case code == 127:
		why = "lineage is not installed there, or not in the PATH that a command over ssh has"
	case why == "" && code < 0:
		why = fmt.Sprintf("ssh was killed: %v", exit)
	case why == "":
		why = fmt.Sprintf("ssh exited with %d", code)
	}
	f := &Failure{strings.TrimPrefix(why, "lineage: ")}
	c.why.Store(f)
	return f
}

// Close ends ssh, and with it the command on the host.
func (c *conn) Close() error {
	c.closed.Store(true)
	err := errors.Join(c.in.Close(), c.out.Close())
	_ = c.cmd.Process.Kill() // it may be gone
	go func() { _ = c.wait() }()
	return err
}

func (c *conn) LocalAddr() net.Addr  { return &net.UnixAddr{Net: "ssh", Name: "ssh"} }
func (c *conn) RemoteAddr() net.Addr { return c.LocalAddr() }

// Deadlines are not needed: a cancelled request closes the connection.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// tail is the end of what is written to it. It is read when nothing writes to it any more.
type tail []byte

// tailBytes is more than any last line of ssh.
const tailBytes = 4096

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(len(*t)-tailBytes, 0):]
	return len(b), nil
}
