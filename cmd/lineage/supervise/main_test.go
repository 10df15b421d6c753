//go:build linux

package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

// The test binary plays all parts: run with a fake daemon, its shim (automatically),
// and the commands that a shell cannot be.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "__lngtest":
		os.Exit(command(os.Args[2:]))
	case os.Getenv("LNGTEST_INIT") != "":
		os.Exit(runInit())
	case os.Getenv("LNGTEST_RUN") != "":
		os.Exit(runFake())
	}
	os.Exit(m.Run())
}

// script tells the `run` of a test what to do, and what the fake daemon answers.
type script struct {
	ShowEnd bool // say when the end begins, and when it is over
	Options struct {
		Name, OnExit, Report, User string
		Exclusive                  string
		GraceMS                    *int64
		NoSubreaper, Quiet         bool
		Leaks                      LeakCheck
		Limits                     Limits
	}
	Log       string     // file for one line a call
	Refusal   *api.Error // of a new session
	NoDaemon  bool       // Connect fails
	HoldUp    bool       // Create does not answer
	DiesOnce  bool       // the first Create breaks the connection
	NoAnswer  bool       // Connect does not answer
	Lose      int        // this many calls of Report break the connection
	Gone      bool       // after the first loss the daemon does not answer
	Verdict   *api.Report
	UntilEnd  bool // the verdict comes with End
	Deaf      bool // End ends nothing
	Alive     *api.Tree
	Times     int // how often to call Run, to see what it leaves behind
	GraceSecs float64
	Limit     *Limit        // run as timeout
	Waits     time.Duration // for the readers of files; 0: as in the product
}

func runFake() int {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv("LNGTEST_RUN")), &s); err != nil {
		fmt.Fprintln(os.Stderr, "lngtest:", err)
		return 99
	}
	os.Unsetenv("LNGTEST_RUN")
	f := newFake(s)
	o := Options{
		Name: s.Options.Name, Exclusive: s.Options.Exclusive, OnExit: s.Options.OnExit, Report: s.Options.Report, User: s.Options.User,
		Subreaper: !s.Options.NoSubreaper, Quiet: s.Options.Quiet,
		Leaks:  s.Options.Leaks,
		Limits: s.Options.Limits,
		Args:   os.Args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Connect: f.connect, Dial: f.dial,
	}
	if s.ShowEnd {
		o.Ending = func(s *api.Session) func() {
			fmt.Fprintln(os.Stderr, "ending", s.ID)
			return func() { fmt.Fprintln(os.Stderr, "shown") }
		}
	}
	if s.Options.GraceMS != nil {
		d := time.Duration(*s.Options.GraceMS) * time.Millisecond
		o.Grace = &d
	}
	if s.Waits > 0 {
		receiptWait = s.Waits
	}
	if s.Limit != nil {
		return Timeout(context.Background(), o, *s.Limit)
	}
	if s.Times == 0 {
		return Run(context.Background(), o)
	}
	for i := range s.Times {
		if code := Run(context.Background(), o); code != 0 {
			return code
		}
		// The runtime opens its poller and starts its threads on first use.
		if n := descriptors(); i == 10 {
			defer func() { fmt.Printf("first %d ", n) }()
		} else if i == s.Times-1 {
			defer func() { fmt.Printf("last %d ", n) }()
		}
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		return 98
	}
	return 0
}

func descriptors() int {
	fds, _ := os.ReadDir("/proc/self/fd")
	return len(fds)
}

// rootPID is the root of a session, as the fake daemon names it.
const rootPID = 3

// fake is a daemon that answers as its script says and logs its calls.
type fake struct {
	*apitest.Client
	script
	lost  bool
	once  sync.Once
	ended chan struct{}
}

func newFake(s script) *fake {
	f := &fake{Client: &apitest.Client{}, script: s, ended: make(chan struct{})}
	f.Has = apitest.Has{Sessions: []api.Session{{ID: "k3x9q2", RSSBytes: 1 << 20}}, Trees: map[string]*api.Tree{"k3x9q2": s.Alive}}
	f.On = apitest.On{Create: f.create, End: f.end, Report: f.report}
	return f
}

func (f *fake) log(format string, args ...any) {
	if f.Log == "" {
		return
	}
	out, err := os.OpenFile(f.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	defer out.Close()
	fmt.Fprintf(out, format+"\n", args...)
}

func (f *fake) connect(ctx context.Context) (api.Client, error) {
	f.log("connect")
	if f.NoAnswer {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.NoDaemon || f.gone() {
		return nil, errors.New("run: no daemon answers and none can be started here")
	}
	return f.Client, nil
}

func (f *fake) dial(context.Context) (api.Client, error) {
	f.log("dial")
	if f.gone() {
		return nil, errors.New("connection refused")
	}
	return f.Client, nil
}

func (f *fake) gone() bool {
	f.Lock()
	defer f.Unlock()
	return f.lost && f.Gone
}

func (f *fake) create(ctx context.Context, req api.NewSession) (*api.Session, error) {
	b, _ := json.Marshal(req)
	f.log("create %s %s", b, cmdline(req.Root.PID))
	if f.HoldUp {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.DiesOnce {
		f.DiesOnce = false
		return nil, &api.UnreachableError{Err: io.EOF}
	}
	if f.Refusal != nil {
		return nil, f.Refusal
	}
	var replaced []string
	if req.Exclusive == api.ExclusiveReplace {
		replaced = []string{"0ldone"}
	}
	return &api.Session{ID: "k3x9q2", Name: req.Name, Root: &api.Process{Ref: api.Ref{PID: rootPID}}, State: "active",
		Token: "lngtest-token", GraceSeconds: f.GraceSecs, Replaced: replaced}, nil
}

func (f *fake) end(s string, req api.EndRequest) (*api.Report, error) {
	f.log("end %s now=%v", s, req.Now)
	if !f.Deaf {
		f.once.Do(func() { close(f.ended) })
	}
	return &api.Report{Session: s}, nil
}

func (f *fake) report(ctx context.Context, s string, wait time.Duration) (*api.Report, error) {
	f.log("report")
	f.Lock()
	lose := f.Lose > 0
	if lose {
		f.Lose--
		f.lost = true
	}
	f.Unlock()
	if lose {
		return nil, errors.New("connection reset")
	}
	if f.UntilEnd {
		select {
		case <-f.ended:
		case <-time.After(wait):
			return &api.Report{Session: s}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.Verdict == nil {
		return &api.Report{Session: s, State: "ended", Verdict: api.VerdictClean, ConfirmedEmpty: true}, nil
	}
	return f.Verdict, nil
}

func command(args []string) int {
	switch args[0] {
	case "family": // root and child of one group print the signals that they get
		child := exec.Command("/proc/self/exe", "__lngtest", "watch", "child")
		in, err := child.StdinPipe()
		if err != nil {
			return 99
		}
		out, err := child.StdoutPipe()
		if err != nil {
			return 99
		}
		if err := child.Start(); err != nil {
			return 99
		}
		defer child.Wait()
		defer in.Close()
		lines := bufio.NewReader(out)
		ready, _ := lines.ReadString('\n')
		fmt.Print(ready)
		go lines.WriteTo(os.Stdout)
		return watch("root")
	case "watch":
		return watch(args[1])
	case "codes":
		return codes(args[1])
	case "attach":
		return attach(args[1])
	case "join": // moves into the group of its parent, then waits
		pgrp, err := unix.Getpgid(os.Getppid())
		if err == nil {
			err = unix.Setpgid(0, pgrp)
		}
		if err != nil {
			fmt.Println(err)
			return 99
		}
		return watch("root")
	}
	return 99
}

// watch prints the signals it gets. It ends with its input, or after a time.
func watch(who string) int {
	sigs := make(chan os.Signal, 16)
	signal.Notify(sigs, slices.Concat([]os.Signal{unix.SIGCONT}, forwarded, forwardedByInit)...)
	over := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(over)
	}()
	fmt.Println(who, "ready", os.Getpid())
	for {
		select {
		case s := <-sigs:
			fmt.Println(who, "got", signalName(s.(unix.Signal)))
		case <-over:
			return 0
		case <-time.After(deadline):
			return 97
		}
	}
}

// deadline limits every wait of a test.
const deadline = 30 * time.Second

// cmdline is what a process executes. It is empty while an exec is under way.
func cmdline(pid int) string {
	var b []byte
	for end := time.Now().Add(deadline); len(b) == 0 && time.Now().Before(end); {
		b, _ = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	}
	return strings.ReplaceAll(string(b), "\x00", " ")
}
