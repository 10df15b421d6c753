//go:build linux

package escapes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A trial is one row tried once: a session, its end, and what is left of it.
type trial struct {
	*row
	*stage.Instance
	t    *testing.T
	host *host
	name string // of the session
	m    *stage.Marker
	run  *stage.Process
	// expanded has the values of the placeholders in the row's program.
	expanded map[string]string
	root     int
	// owner is the process of run, which may itself run under another.
	owner  int
	began  time.Time // the end
	report *api.Report
	code   int // of the command end
}

// try makes a trial in a fresh session and notes the result.
func (h *host) try(t *testing.T, r *row) {
	h.serve(t)
	h.sessions++
	x := &trial{
		row: r, Instance: h.instance.In(t), t: t, host: h,
		name: fmt.Sprintf("%s-%d", strings.ReplaceAll(r.name, "_", "-"), h.sessions),
	}
	result := outcome{failed: true}
	defer func() {
		if !t.Skipped() {
			seen.note(r, h.cell, result)
		}
	}()
	x.m = stage.NewMarker(t, x.Dir)
	x.start()
	var after func()
	if r.story != nil {
		after = r.story(x)
	}
	x.end()
	result.took = time.Since(x.began)
	if r.beside {
		after()
		after = nil
	}
	if !r.left {
		result.survivors = len(x.survivors())
	}
	if after != nil {
		after()
	}
	x.check()
	x.Until("end of the cgroups", func() bool { return stage.Groups() == 0 })
	if refused := x.m.Lines("refused"); len(refused) > 0 {
		t.Logf("%v: the kernel refused forks: %v", h.cell, refused)
	}
	if result.took > r.grace+second && !r.left {
		t.Logf("figure: %v, %v: %v from the cause to the receipt: %s",
			h.cell, x.name, result.took.Round(time.Millisecond), x.inShort())
	}
	for _, s := range h.outsiders {
		if err := s.Untouched(); err != nil {
			result.touched++
			t.Error(err)
		}
	}
	result.failed = t.Failed()
}

// start runs the row's program as a session and waits until it is in place.
//
// A stopped process cannot reap: if run will be stopped, or the row wants zombies,
// another subreaper gets the orphans.
func (x *trial) start() {
	x.t.Helper()
	args := []string{"run", "--name", x.name, "--grace", x.grace.String(), "--report", x.receipt()}
	other := x.lazy || x.host.failure == daemonKilled && !x.shared
	if other || x.shared {
		args = append(args, "--subreaper=false")
	}
	args = append(args, strings.Fields(x.flags+" "+os.Getenv("LNGTEST_RUN"))...) // more flags for all
	args = slices.Concat(args, []string{"--"}, stage.Argv(x.expand(x.program)))
	cmd := x.Command(args, x.m.Env())
	if other {
		reap := []string{stage.Program("reap")}
		if x.lazy {
			reap = append(reap, "lazy")
		}
		cmd.Path, cmd.Args = reap[0], slices.Concat(reap, []string{stage.Lineage}, cmd.Args[1:])
	}
	x.run = stage.Start(x.t, cmd)
	x.inPlace()
	s := x.Record(x.name)
	if s.Root == nil || s.Owner == nil {
		x.t.Fatalf("session without root or owner: %+v", s)
	}
	x.root, x.owner = s.Root.PID, s.Owner.PID
}

// inPlace waits until all of the row's program runs.
func (x *trial) inPlace() {
	x.t.Helper()
	x.m.Wait("ready", func(bool) bool { return len(x.m.Lines("ready")) > 0 || x.run.Exited() })
	if x.run.Exited() {
		x.t.Fatalf("run has ended: %v", x.run)
	}
	if x.members > 0 {
		x.m.Members(x.members)
	}
}

func (x *trial) receipt() string { return filepath.Join(x.Dir, x.name+".json") }

// expand replaces the placeholders in the row's program with what it needs from the host.
func (x *trial) expand(program string) string {
	for word, make := range map[string]func(*trial) string{
		"{dir}": func(x *trial) string { return x.Dir }, "{cgroup}": newCgroup, "{freezer}": newFreezer,
		"{tmux}": newTmux(""), "{tmux secret}": newTmux(` -e LINEAGE_TOKEN="$LINEAGE_TOKEN"`), "{at}": newJob,
	} {
		if strings.Contains(program, word) {
			x.expanded = map[string]string{word: make(x)}
			program = strings.ReplaceAll(program, word, x.expanded[word])
		}
	}
	return program
}

// end ends the session the way that the cell and the row ask for, and gets the receipt.
func (x *trial) end() {
	x.t.Helper()
	x.began = time.Now()
	switch x.host.failure {
	case rootAlive:
		if x.rootSignal != 0 {
			x.kill(x.root, x.rootSignal)
			x.fromRun()
			return
		}
		p := x.Lineage("end", "--yes", "--timeout", require.Slowed(10*time.Second).String(), "-o", "json", x.name)
		x.code = p.Code()
		x.read(p.Out.Bytes(), p)
	case rootKilled:
		x.kill(x.root, x.killer())
		x.fromRun()
	case daemonKilled:
		x.host.lose(x.t)
		x.t.Cleanup(func() {
			if !x.run.Exited() { // no other process would continue it
				_ = unix.Kill(x.owner, unix.SIGKILL)
			}
		})
		x.kill(x.owner, unix.SIGSTOP)
		x.kill(x.root, x.killer())
		x.withoutUs()
		x.host.serve(x.t)
		x.m.Wait("end of the workload", func(alive bool) bool { return !alive || x.left || x.beside })
		if !x.run.Exited() { // the new daemon has continued it by now, perhaps to its end
			_ = unix.Kill(x.owner, unix.SIGCONT)
		}
		x.fromRun()
	}
}

// withoutUs waits until the kernel has ended the session, while no process of ours
// could help. Not below level 4.
func (x *trial) withoutUs() {
	x.t.Helper()
	if x.host.reached < 4 || x.left || x.beside {
		return
	}
	x.m.Wait("end without a daemon", func(alive bool) bool {
		if alive && time.Since(x.began) > x.grace {
			// A deadline is kept by the next process event of the host.
			require.NoError(x.t, exec.Command("true").Run())
		}
		return !alive
	})
	if x.Version() != nil {
		x.t.Error("a daemon answers: it may have ended the session")
	}
}

// killer is the signal that ends the root in cells that kill it.
func (x *trial) killer() unix.Signal {
	if x.rootSignal != 0 {
		return x.rootSignal
	}
	return unix.SIGKILL
}

func (x *trial) kill(pid int, sig unix.Signal) {
	x.t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		x.t.Fatalf("kill %d: %v", pid, err)
	}
}

// fromRun waits for run and reads the receipt that it wrote.
func (x *trial) fromRun() {
	x.t.Helper()
	if x.left || x.beside { // run would wait for these processes too
		x.Until("receipt", func() bool { _, err := os.Stat(x.receipt()); return err == nil })
	} else {
		x.run.Wait()
	}
	text, err := os.ReadFile(x.receipt())
	if err != nil {
		x.t.Fatalf("run: %v: %v", err, x.run)
	}
	x.read(text, x.run)
}

// read takes the receipt that p wrote.
func (x *trial) read(text []byte, p *stage.Process) {
	x.t.Helper()
	x.report = new(api.Report)
	if err := json.Unmarshal(text, x.report); err != nil {
		x.t.Fatalf("receipt: %v: %q: %v", err, text, p)
	}
}

// survivors are the processes of the workload that live now.
func (x *trial) survivors() []int {
	if !x.m.Drain() {
		return nil
	}
	return x.m.Holders()
}

// check compares the receipt with what the row expects.
func (x *trial) check() {
	x.t.Helper()
	r := x.report
	if x.left {
		return // its story checks it
	}
	if left := x.survivors(); len(left) > 0 {
		x.t.Errorf("alive after the end: %v", left)
	}
	if r.Verdict != "clean" || r.Left != 0 || !r.ConfirmedEmpty || x.code != 0 {
		x.t.Errorf("exit %d, want a clean receipt: %s", x.code, x.inShort())
	}
	if x.run.Wait(); x.run.Held {
		x.t.Error("somebody held the output of run when it had ended")
	}
	for _, p := range r.Processes {
		if x.outcome != "" && p.PID != x.root && p.Outcome != x.outcome {
			x.t.Errorf("%d went by %q, want %q: %s", p.PID, p.Outcome, x.outcome, x.inShort())
			break
		}
	}
	if x.outcome != "" && len(r.Processes) < x.members {
		x.t.Errorf("the receipt names %d processes, want %d: %s", len(r.Processes), x.members, x.inShort())
	}
}

// inShort is the receipt, in short, for a message.
func (x *trial) inShort() string {
	r := *x.report
	if len(r.Processes) > 10 {
		r.Processes = r.Processes[:10]
	}
	if len(r.Zombies) > 10 {
		r.Zombies = r.Zombies[:10]
	}
	text, _ := json.Marshal(r)
	return string(text)
}
