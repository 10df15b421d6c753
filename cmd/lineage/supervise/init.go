//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"

	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// defaultGrace is the grace of the policy's defaults. Init reads no policy.
const defaultGrace = 5 * time.Second

// forwardedByInit are the signals that init forwards besides those of run: a
// container's stop signal may be any. Excluded are signals that the kernel raises for
// our own faults, and SIGURG and SIGPROF, which the Go runtime uses.
var forwardedByInit = func() []os.Signal {
	all := []os.Signal{unix.SIGALRM, unix.SIGVTALRM, unix.SIGIO, unix.SIGPWR, unix.SIGXCPU, unix.SIGXFSZ}
	for n := unix.Signal(35); n <= 64; n++ { // lower ones belong to the C library, and Go does not catch them
		all = append(all, n)
	}
	return all
}()

// Init runs o.Args as run does, without a session, a daemon or privilege: as PID 1 of a
// PID namespace it is responsible for the whole namespace, else it becomes a subreaper
// and is responsible for its descendants. It reaps orphans, ends what is left when the
// command exits, and returns the command's exit code or its own, as [Run] does. Of o
// only Grace, Report, Quiet, Args, Env and the streams matter. Needs Linux 5.3.
func Init(_ context.Context, o Options) int {
	o = Options{Grace: o.Grace, Report: o.Report, Quiet: o.Quiet, Args: o.Args, Env: o.Env,
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, verb: "init"}
	r := &runner{Options: o}
	return r.code(r.init())
}

func (r *runner) init() (int, error) {
	inherited, sigs := r.timed.catch(forwardedByInit...)
	if _, err := r.check(); err != nil {
		return 0, err
	}
	r.tty = openTerminal()
	defer r.tty.close()
	return r.alone(inherited, sigs)
}

// alone runs the command without a daemon.
func (r *runner) alone(inherited ignores, sigs *caught) (int, error) {
	family, err := r.family()
	if err != nil {
		return 0, err
	}
	child, err := startShim(&r.Options)
	if err != nil {
		return 0, err
	}
	j := newJob(child.pid, r.tty, r.handsOver(inherited), sigs)
	if sig := calledOff(sigs); sig != 0 {
		child.abort()
		return 0, &failure{exitSignal + int(sig),
			fmt.Errorf("%s: %v before %s ran", r.verb, sig, r.command())}
	}
	status, err := r.serve(j, child, shim.Order{Ignored: uint64(inherited), Blocked: urgent.Blocked})
	if err != nil {
		return 0, err
	}
	grace := defaultGrace
	if r.Grace != nil {
		grace = *r.Grace
	}
	if r.timed.killed() {
		grace = 0
	}
	e := newEnding(family, j)
	rep := e.run(grace)
	return r.done(status, r.tell(rep, e.hurried, sigs.to))
}

// calledOff returns a signal that asked us to end before the command ran. The others
// are forwarded later.
func calledOff(c *caught) unix.Signal {
	var others []os.Signal
	for {
		select {
		case s := <-c.to:
			if sig := s.(unix.Signal); endsRun(sig) {
				return sig
			}
			others = append(others, s)
		default:
			for _, s := range others {
				c.to <- s
			}
			return 0
		}
	}
}

// family finds the processes that we are responsible for.
func (r *runner) family() (family, error) {
	if self, err := os.Readlink("/proc/self"); err != nil {
		return nil, fmt.Errorf("%s: look at /proc: %w; mount it", r.verb, err)
	} else if self != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("%s: /proc is another PID namespace's; mount it (unshare --fork --pid --mount-proc)", r.verb)
	}
	if os.Getpid() == 1 {
		if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns == procfs.InitPIDNamespace {
			return nil, errors.New("init: PID 1 of a container only, and this seems to be the init of the host; lineage init is for containers")
		}
		return namespace{}, nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("%s: become a subreaper: %w", r.verb, err)
	}
	// A process that execs init may have children already. Their orphans would become
	// our children too, and could not be told from the command's.
	if list := (descendants{}).list(); len(list) > 0 {
		return nil, fmt.Errorf("%s: it has a child already, %d (%s), which is not CMD's; do not start it by exec",
			r.verb, list[0].PID, display.Text(list[0].Comm))
	}
	if !r.Quiet {
		r.say("init: not PID 1, so a subreaper: what descends from %s is ended; %s",
			r.command(), unknownToSubreaper)
	}
	return descendants{}, nil
}

const unknownToSubreaper = "what another daemon started for it is unknown"
