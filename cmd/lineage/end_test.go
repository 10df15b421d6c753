package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// The end of one session is the first request to the daemon. How long to wait for it is
// asked afterwards, unless the command line says it.
func TestEndFirst(t *testing.T) {
	for line, shown := range map[string]int{
		"end -y --now build":      0,
		"end -y --grace 1s build": 0,
		"end -y build":            1,
	} {
		f := newFake()
		f.On.End = func(id string, req api.EndRequest) (*api.Report, error) {
			if f.Got.Sessions != 0 {
				t.Errorf("%s: the session was asked for before it was ended", line)
			}
			return begun(id, req)
		}
		f.On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
			return cleanReport(id), nil
		}
		if code, stdout, stderr := newWorld(t, f).run(strings.Fields(line)...); code != 0 || f.Got.Sessions != shown {
			t.Errorf("%s: exit %d, asked for the session %d times: %s%s", line, code, f.Got.Sessions, stdout, stderr)
		}
	}
}

func begun(id string, _ api.EndRequest) (*api.Report, error) {
	return &api.Report{Session: id, State: "ending", Processes: []api.Outcome{{Ref: ref(1), Outcome: "kill"}}, Started: 10_003, Exited: 2, Left: 1515}, nil
}

// If the receipt is not ready, the daemon is asked again.
func TestEndWaits(t *testing.T) {
	f := newFake()
	f.On.End = begun
	asked := 0
	f.On.Report = func(_ context.Context, id string, wait time.Duration) (*api.Report, error) {
		if wait > api.MaxWait {
			t.Errorf("asked to wait %v", wait)
		}
		if asked++; asked < 3 {
			return begun(id, api.EndRequest{})
		}
		return cleanReport(id), nil
	}
	if code, stdout, stderr := newWorld(t, f).run("end", "-y", "build"); code != 0 || asked != 3 {
		t.Errorf("exit %d after %d questions: %s%s", code, asked, stdout, stderr)
	}
}

func TestEndLosesTheDaemon(t *testing.T) {
	f := newFake()
	f.On.End = begun
	f.On.Report = func(context.Context, string, time.Duration) (*api.Report, error) {
		return nil, &api.UnreachableError{Socket: "/s", Err: syscall.ECONNREFUSED}
	}
	f.Has.Halted = &api.Halted{Halt: &api.Halt{Mode: api.ModeHalt}, Items: []api.HaltedSession{{ID: "k3x9q2"}, {ID: "q1w2e3"}}}
	for line, lines := range map[string]int{"end -y build": 1, "halt -y --reason r": 2} { // a halt says first that it is in force
		code, _, stderr := newWorld(t, f).run(strings.Fields(line)...)
		if code != 5 || strings.Count(stderr, "\n") != lines || !strings.Contains(stderr,
			"lost the daemon at /s: connection refused; it may have done what was asked") {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}

// waits makes each wait for a receipt last, and says that it has begun.
func waits(f *apitest.Client) (begun chan struct{}) {
	begun = make(chan struct{}, 2)
	f.On.Report = func(ctx context.Context, _ string, _ time.Duration) (*api.Report, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return begun
}

// The first Ctrl-C prints that ending continues, the second one kills.
func TestEndInterrupted(t *testing.T) {
	f := newFake()
	f.On.End = func(id string, req api.EndRequest) (*api.Report, error) {
		if req.Now {
			return cleanReport(id), nil
		}
		return begun(id, req)
	}
	waiting := waits(f)
	w := newWorld(t, f)
	go func() {
		<-waiting
		<-waiting
		w.signals <- os.Interrupt
		w.signals <- os.Interrupt
	}()
	code, _, stderr := w.run("end", "-y", "build", "m8p4z1")
	want := "lineage: end: still ending 2 sessions; Ctrl-C again kills now\nlineage: end: killing now\n"
	if code != 0 || stderr != want {
		t.Errorf("exit %d, stderr %s, want %s", code, stderr, want)
	}
	slices.Sort(f.Got.Ended)
	require.Equal(t, strings.Join(f.Got.Ended, ", "), "k3x9q2, k3x9q2 now, m8p4z1, m8p4z1 now")
}

// SIGTERM ends the command, but the end of the session continues.
func TestEndTerminated(t *testing.T) {
	f := newFake()
	f.On.End = begun
	waiting := waits(f)
	w := newWorld(t, f)
	go func() {
		<-waiting
		w.signals <- syscall.SIGTERM
	}()
	code, _, stderr := w.run("end", "-y", "build")
	want := "lineage: end k3x9q2: received SIGTERM; the end continues without this command\n"
	if code != 1 || stderr != want || len(f.Got.Ended) != 1 {
		t.Errorf("exit %d, asked %v, stderr %s", code, f.Got.Ended, stderr)
	}
}

// On a terminal end asks, and lists what will die.
func TestEndAsks(t *testing.T) {
	for _, tt := range []struct {
		name, answer, args string
		code               int
		ends               int
	}{
		{"yes", "y\n", "build", 0, 1},
		{"YES", " YES \n", "build m8p4z1", 0, 2},
		{"no", "n\n", "build", 1, 0},
		{"default", "\n", "build", 1, 0},
		{"end of input", "\x04", "build", 1, 0},
		{"something else", "yesterday\n", "--now build", 1, 0},
		{"nothing to ask", "", "old", 0, 1},
		{"nothing to end", "", "nosuch", 3, 0},
		{"told not to ask", "", "--yes build", 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			w := newWorld(t, f)
			shown := w.terminal(tt.answer)
			code, stdout, _ := w.run(append([]string{"end"}, strings.Fields(tt.args)...)...)
			if code != tt.code || len(f.Got.Ended) != tt.ends {
				t.Errorf("exit %d, ended %v", code, f.Got.Ended)
			}
			golden(t, "ask "+tt.name, shown()+"--- stdout\n"+stdout)
		})
	}
}

// terminal puts the app's stdin and stderr on a terminal, whose user answers a question. The
// function returns everything that was shown there.
func (w *world) terminal(answer string) (shown func() string) {
	w.t.Helper()
	y := newTypist(w.t, 60, "[y/N] ", answer, w.sees)
	w.Stdin, w.Stderr = y.tty, y.tty
	return y.saw
}

// If the daemon stops answering after it was reached, the command waits, and says so.
func TestEndSaysThatNobodyAnswers(t *testing.T) {
	for _, tt := range []struct {
		name string
		held func(*apitest.Client, func())
	}{
		{"session", func(f *apitest.Client, hold func()) {
			f.On.Session = func(id string) (*api.Session, error) { hold(); return f.Find(id) }
		}},
		{"end", func(f *apitest.Client, hold func()) {
			f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) { hold(); return cleanReport(id), nil }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			w := newWorld(t, f)
			message := make(chan string, 1)
			w.Stderr = writerFunc(func(b []byte) { message <- string(b) })
			tt.held(f, func() {
				select {
				case line := <-message:
					if line != "lineage: end: no answer from the daemon yet; still waiting, Ctrl-C gives up\n" {
						t.Errorf("said %q", line)
					}
				case <-time.After(30 * time.Second):
					t.Error("nothing was said")
				}
			})
			if code, _, _ := w.run("end", "--yes", "build"); code != 0 {
				t.Errorf("exit %d", code)
			}
		})
	}
}

type writerFunc func([]byte)

func (w writerFunc) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
