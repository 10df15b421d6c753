//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/html"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
)

// Exit codes of our own. All others that Run returns are the command's.
const (
	exitLeaks    = 123 // Options.Leaks.Fail, and the command left something
	exitBusy     = 75  // Options.Exclusive, and the name is not free: EX_TEMPFAIL of sysexits(3)
	exitFailed   = 125 // we failed before the command ran, or its receipt is missing
	exitCannot   = 126 // the command was found and could not be executed
	exitNotFound = 127
	exitSignal   = 128 // plus the signal that the command died of
)

// What happens to the leftovers when the command exits: Options.OnExit.
const (
	OnExitEnd    = "end"
	OnExitReport = "report"
)

type Options struct {
	Name      string         // of the session; may be empty
	Exclusive string         // one of [api.Exclusive], with a Name; "": no
	Grace     *time.Duration // between SIGTERM and SIGKILL; nil: the daemon's default
	OnExit    string         // OnExitEnd (also "") or OnExitReport
	Leaks     LeakCheck      // not with OnExitReport
	Limits    Limits
	Report    string   // file for the receipt as JSON; "": none
	Confine   bool     // the session's signals do not reach other processes
	Spare     string   // root: no other member may kill or stop the root
	Subreaper bool     // orphans of the session become ours, not PID 1's
	Quiet     bool     // print nothing about leftovers that were ended
	User      string   // that the command runs as; "": the caller
	Args      []string // the command

	Stdin, Stdout, Stderr *os.File // the command's; nil: closed. Ours: Stderr
	Env                   []string

	// Connect reaches the daemon and starts an ephemeral one if none answers. Dial does
	// not start one. Both may be called more than once.
	Connect func(context.Context) (api.Client, error)
	Dial    func(context.Context) (api.Client, error)

	// Ending shows the progress of the session's end, until done is called; nil:
	// nothing is shown.
	Ending func(*api.Session) (done func())

	verb string // run or init, for messages
}

// Limits end a session, but for Cgroup; 0: none.
type Limits struct {
	MaxLifetime, Idle time.Duration
	MaxProcesses      int
	MaxRSS            int64       // bytes
	Cgroup            *api.Limits // what the kernel holds it to instead; nil: nothing
}

// failure is an error that decides Run's exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Run runs o.Args as the root of a new session and returns the exit code for the
// process: the command's (128 + signal if it died of one), 127 if it does not exist,
// 126 if it could not be executed, 125 for every failure of ours before it ran and for a
// receipt that could not be written. ctx matters until the command runs; after that Run returns when the command has ended.
// Signals stay caught, so that none can change the exit code.
func Run(ctx context.Context, o Options) int {
	o.verb = "run"
	r := &runner{Options: o}
	return r.code(r.run(ctx))
}

// code is the process's exit code; an error is printed.
func (r *runner) code(code int, err error) int {
	if err == nil {
		return code
	}
	if refused, ok := errors.AsType[*api.Error](err); ok {
		r.say("%s", refused)
	} else {
		r.say("%s", err)
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitFailed
}

type runner struct {
	Options
	tty     *terminal     // nil: no controlling terminal
	receipt *html.OutFile // nil: not requested
	session *api.Session
	timed   *timed // of timeout; nil: none
	leaks   leaks
}

func (r *runner) run(ctx context.Context) (int, error) {
	// No member of our uid can attach to us: a process that it made us fork would be in no session. The command is
	// not affected: exec undoes it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("run: prevent tracing: %w", err)
	}
	account, err := r.check()
	if err != nil {
		return 0, err
	}
	r.tty = openTerminal()
	defer r.tty.close()

	inherited, sigs := r.timed.catch()
	// The shim gets ready while we do the rest.
	child, err := startShim(&r.Options)
	if err != nil {
		return 0, err
	}
	refused := func(err error) (int, error) {
		child.abort()
		if r.timed.fallsBack(r, err) {
			return r.alone(inherited, sigs)
		}
		return 0, err
	}
	client, err := unlessEnded(ctx, r, sigs.to, r.Connect)
	if err != nil {
		return refused(err)
	}
	link := &link{connect: r.Connect, dial: r.Dial, client: client}
	defer link.close()

	if r.Subreaper {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			child.abort()
			return 0, fmt.Errorf("become a subreaper: %w", err)
		}
	}
	err = r.create(ctx, link, sigs.to, child.pid)
	if err != nil {
		return refused(err)
	}
	if !r.Quiet && (!r.Confine || r.Spare != "") && r.timed == nil {
		for _, w := range r.session.Warnings {
			r.say("%s: %s", r.verb, w)
		}
	}
	if l := r.session.Limits; l != nil && !r.Quiet {
		for _, why := range l.Unset {
			r.say("%s: not in force: %s", r.verb, why)
		}
	}
	j := newJob(child.pid, r.tty, r.handsOver(inherited), sigs)
	j.insist = func(terms int) { go r.insisted(context.WithoutCancel(ctx), link, terms) }
	status, err := r.serve(j, child, shim.Order{
		Session: r.session.ID,
		Token:   r.session.Token,
		Ignored: uint64(inherited),
		Blocked: urgent.Blocked,
		Account: account,
		Confine: r.Confine,
	})
	if err != nil {
		return 0, err
	}
	return r.done(status, r.finish(context.WithoutCancel(ctx), link, j))
}

// serve lets the shim become the command, and serves it until it exits.
func (r *runner) serve(j *job, child *child, o shim.Order) (unix.WaitStatus, error) {
	signal.Ignore(unix.SIGPIPE) // only now: the shim would inherit an ignored signal
	if j.eager {                // before its first instruction
		j.tty.give(j.pid)
	}
	if err := child.release(o); err != nil {
		child.abort()
		j.settle(false)
		return 0, err
	}
	if r.timed != nil {
		r.timed.begin(r, j)
	}
	status := j.wait()
	j.settle(status != 0)
	return status, nil
}

// done is the end of a command that ran. A receipt that was requested and is missing is a
// failure of ours, whatever the command returned: a member of our uid can take away our right
// to write files, by prlimit(2).
func (r *runner) done(status unix.WaitStatus, missing error) (int, error) {
	code := exitCode(status)
	switch {
	case r.timed != nil:
		code = r.timed.code(status)
	case code == 0 && r.limited(): // many programs exit with 0 on SIGTERM
		code = exitTimedOut
	case code == 0 && r.Leaks.Fail:
		code = r.leaks.code
	}
	if missing != nil {
		return 0, fmt.Errorf("%w; the exit code of %s was %d", missing, r.command(), code)
	}
	return code, nil
}

// check reports what can be wrong before anything is started.
func (r *runner) check() (*shim.Account, error) {
	if g := r.Grace; g != nil && (*g < 0 || *g > api.MaxGrace) {
		return nil, fmt.Errorf("%s: grace %v: want 0s to %v", r.verb, *g, api.MaxGrace)
	}
	if r.OnExit != "" && r.OnExit != OnExitEnd && r.OnExit != OnExitReport {
		return nil, fmt.Errorf("run: on-exit %q: want %s or %s", r.OnExit, OnExitEnd, OnExitReport)
	}
	if r.Confine {
		if err := shim.CanConfine(); err != nil {
			return nil, fmt.Errorf("run: --signals session: %w", err)
		}
	}
	var who *shim.Account
	if r.User != "" {
		var err error
		if who, err = lookupAccount(r.User); err != nil {
			return nil, fmt.Errorf("run: --user %s: %s", r.User,
				strings.TrimPrefix(err.Error(), "user: "))
		}
		r.Env = environ(who, r.Env)
	} else if name, uid := lookupEnv(r.Env, "SUDO_USER"), lookupEnv(r.Env,
		"SUDO_UID"); uid != "" && uid != "0" &&
		name != "root" && os.Geteuid() == 0 && !r.Quiet {
		r.say("run: %s runs as root, because sudo started lineage; add --user %s, or --user root if root is meant",
			r.command(), name)
	}
	// The shim's exec decides; this check only avoids a useless session.
	if err := shim.Executable(r.Args[0], lookupEnv(r.Env, "PATH")); err != nil {
		return nil, execFailure(r.verb, r.Args[0], err)
	}
	if r.Report != "" {
		var err error
		if r.receipt, err = html.OpenFile(r.Report, writer(who)); err != nil {
			return nil, fmt.Errorf("%s: report %s: %w", r.verb, r.Report, err)
		}
	}
	return who, nil
}

// writer is the user whose rights are used to write our files; nil: our own rights.
func writer(who *shim.Account) *html.User {
	if who == nil {
		return nil
	}
	return &html.User{Name: who.Name, UID: who.UID, GID: who.GID, Groups: who.Groups}
}

// unlessEnded returns what ask returns, unless a signal cancels it meanwhile.
func unlessEnded[T any](
	ctx context.Context, r *runner, signals <-chan os.Signal, ask func(context.Context) (T, error),
) (got T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		got T
		err error
	}
	done := make(chan reply, 1)
	go func() {
		got, err := ask(ctx)
		done <- reply{got, err}
	}()
	for {
		select {
		case r := <-done:
			return r.got, r.err
		case s := <-signals:
			if sig := s.(unix.Signal); endsRun(sig) {
				return got, &failure{exitSignal + int(sig),
					fmt.Errorf("%s: %v before %s ran", r.verb, sig, r.command())}
			}
		}
	}
}

func (r *runner) request(pid int) api.NewSession {
	req := api.NewSession{
		Root: api.Ref{PID: pid}, Name: r.Name, Exclusive: r.Exclusive, Limits: r.Limits.Cgroup,
		OnRootExit: r.OnExit, Spare: r.Spare,
		MaxLifetimeMS: r.Limits.MaxLifetime.Milliseconds(), IdleMS: r.Limits.Idle.Milliseconds(),
		MaxProcesses: r.Limits.MaxProcesses, MaxRSSBytes: r.Limits.MaxRSS, TimeoutMS: r.timed.ms(),
	}
	if r.Leaks.Fail {
		req.OnRootExit = "owner"
	}
	if r.Grace != nil {
		req.GraceMS = new(r.Grace.Milliseconds())
	}
	return req
}

// handsOver reports whether the command gets the terminal without asking: not if SIGINT is ignored, as under the `&` of
// a shell without job control, nor in a pipeline, where a pager may read keys from it.
func (r *runner) handsOver(inherited ignores) bool {
	return !inherited.has(unix.SIGINT) && (r.timed == nil ||
		r.timed.Foreground) && !isPipe(r.Stdin) && !isPipe(r.Stdout)
}

func isPipe(f *os.File) bool {
	if f == nil {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeNamedPipe != 0
}

// command is the command's name for messages.
func (r *runner) command() string { return filepath.Base(r.Args[0]) }

// say prints one line of ours, safe for a terminal.
func (r *runner) say(format string, args ...any) {
	if r.Stderr == nil {
		return
	}
	io.WriteString(r.Stderr, display.InLocale(os.Getenv,
		"lineage: "+display.Text(fmt.Sprintf(format, args...))+"\n"))
}

func exitCode(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// lookupEnv returns the last value of name in env, as the C library would.
func lookupEnv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}
