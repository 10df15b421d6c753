//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

// StartTimeout bounds the start of a daemon, with probing and loading.
const StartTimeout = 15 * time.Second

type ConnectOptions struct {
	Socket string // default api.DefaultSocket
	// Command starts a daemon for the socket, in the foreground. Default: this
	// executable with "daemon --ephemeral --socket SOCKET".
	Command func(socket string) *exec.Cmd
}

// Connect returns a client of the daemon on the socket, and starts an ephemeral daemon
// if there is none. Of many concurrent callers one starts it, under a lock, and the
// others wait for it. The error says in one line what is missing and what to run.
func Connect(ctx context.Context, o ConnectOptions) (api.Client, error) {
	i, err := InstanceOf(o.Socket)
	if err != nil {
		return nil, err
	}
	if o.Command == nil {
		o.Command = ephemeralCommand
	}
	var c api.Client
	var lock *InstanceLock
	waiting, cancel := context.WithTimeout(ctx, StartTimeout+LockTimeout)
	defer cancel()
	err = Poll(waiting, func() (bool, error) {
		switch c, err = api.Dial(waiting, i.Socket); {
		case behind(err):
			return false, nil
		case !DaemonAbsent(err):
			return true, err
		case os.Geteuid() != 0:
			return true, fmt.Errorf("no daemon at %s, and only root can start one; run with sudo", i.Socket)
		}
		if lock, err = i.TryLock(); errors.Is(err, ErrLocked) {
			return false, nil // another process starts it
		}
		return true, err
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("start the daemon: %w", err)
	case lock == nil:
		return c, err
	}
	defer lock.Release()
	// Another daemon may have started between our dial and the lock.
	if c, err = api.Dial(ctx, i.Socket); !DaemonAbsent(err) {
		return c, err
	}
	if err := i.start(ctx, o.Command(i.Socket)); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	return api.Dial(ctx, i.Socket)
}

// DaemonAbsent reports an error of a dial: no process listens on the socket.
func DaemonAbsent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// behind reports that the daemon's queue of callers is full, or that it has just
// stopped: another try may be answered.
func behind(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF)
}

func ephemeralCommand(socket string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = "/proc/self/exe"
	}
	return exec.Command(exe, "daemon", "--ephemeral", "--socket", socket)
}

// start starts a daemon that outlives this process: in a POSIX session of its own
// and the root directory, with nothing of ours open but its end of the pipe. It
// waits for the daemon's report. The caller holds the lock.
func (i Instance) start(ctx context.Context, cmd *exec.Cmd) error {
	log, err := OpenFile(i.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(cmd.Environ(), readyFD+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	// This process may run for long: do not leave a zombie. Nor does it get a child that it does not know: where a
	// daemon that failed is still about to exit, a subreaper could not tell it from the command's.
	gone, exited := context.WithCancel(ctx)
	go func() { _ = cmd.Wait(); exited() }()
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	if err = awaitReport(r); err != nil {
		<-gone.Done()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrDied) {
		return fmt.Errorf("%w; see %s", err, i.Log)
	}
	return err
}

// readyFD is the environment variable that names, for a daemon that a command
// starts, the pipe on which it reports that it serves, or why not.
const readyFD = "LINEAGE_READY_FD"

const readyWord = "ready"

// StartPipe is the daemon's end of the pipe to the command that started it; nil if
// none did.
type StartPipe struct{ file *os.File }

// InheritedPipe gives the pipe, and closes all other descriptors that the process
// was started with. Go opens everything close-on-exec, so a descriptor that is not
// was inherited.
func InheritedPipe() *StartPipe {
	text, ok := os.LookupEnv(readyFD)
	if !ok {
		return nil
	}
	os.Unsetenv(readyFD)
	fd, err := strconv.Atoi(text)
	if err != nil || fd <= 2 {
		return nil
	}
	unix.CloseOnExec(fd)
	entries, err := os.ReadDir("/proc/self/fd")
	if err == nil {
		for _, e := range entries {
			n, err := strconv.Atoi(e.Name())
			if err != nil || n <= 2 || n == fd {
				continue
			}
			if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD,
				0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				unix.Close(n)
			}
		}
	}
	return &StartPipe{os.NewFile(uintptr(fd), "ready")}
}

// Report says once that the daemon serves, or why it does not.
func (p *StartPipe) Report(err error) {
	if p == nil || p.file == nil {
		return
	}
	text := readyWord
	if err != nil {
		text = err.Error()
	}
	io.WriteString(p.file, text)
	p.file.Close()
	p.file = nil
}

// ErrDied means that the daemon died before it reported anything.
var ErrDied = errors.New("it exited immediately")

func awaitReport(pipe io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(pipe, 4096))
	switch text := strings.TrimSpace(string(b)); {
	case err != nil:
		return fmt.Errorf("wait for the daemon: %w", err)
	case text == readyWord:
		return nil
	case text == "":
		return ErrDied
	default:
		return errors.New(text)
	}
}

// Manager is the service manager that started the daemon, such as systemd. It gets
// the daemon's status (sd_notify(3)), may have made the socket, and restarts the
// daemon when it dies. The zero value is none.
type Manager struct {
	Present  bool
	Watchdog time.Duration // it kills a daemon that reports nothing for this long; 0: never
	Sockets  []*os.File
	Log      zerolog.Logger
}

// TheManager takes what a service manager left in the environment. If a command
// started the daemon, these variables are meant for the command.
func TheManager(ready *StartPipe) (*Manager, error) {
	if ready != nil {
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
			"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
			os.Unsetenv(name)
		}
		return &Manager{Log: zerolog.Nop()}, nil
	}
	m := &Manager{Sockets: activation.Files(true), Log: zerolog.Nop()}
	m.Present = os.Getenv("NOTIFY_SOCKET") != "" || len(m.Sockets) > 0
	var err error
	if m.Watchdog, err = sd.SdWatchdogEnabled(true); err != nil {
		return m, fmt.Errorf("read the service manager's watchdog: %w", err)
	}
	return m, nil
}

// Notify sends fields to the manager, if there is one.
func (m *Manager) Notify(fields ...string) {
	if !m.Present {
		return
	}
	_, err := sd.SdNotify(false, strings.Join(fields, "\n"))
	Failure(m.Log, err).Msg("service manager not notified")
}

// StatusField is the line that `systemctl status` shows. Each field is a line, so
// control characters in the text are removed.
func StatusField(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Fields of [Manager.Notify].
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// Reloading are the fields to send before the policy is read again; [Ready] ends
// the reload.
func Reloading() []string {
	return []string{"RELOADING=1", strings.TrimSpace(sd.SdNotifyMonotonicUsec())}
}
