//go:build linux

package stage

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A Bystander is outside every session and counts the signals that it gets.
type Bystander struct {
	*Process
	PID   int
	m     *Marker
	stdin io.WriteCloser
	asked int
}

// NewBystander starts one that looks like a member; if pid is given, with that PID. It
// inherits the files, from descriptor 3 on.
func NewBystander(i *Instance, comm string, pid int, files ...*os.File) *Bystander {
	i.T.Helper()
	m := NewMarker(i.T, i.Dir)
	cmd := exec.Command(Program("bystander"), comm)
	cmd.Args[0] = Program("gone")
	if pid != 0 {
		cmd.Args = append(cmd.Args, fmt.Sprint(pid))
	}
	cmd.Env = append(m.Env(), "LNGTEST_SECONDS=3600")
	cmd.Dir = i.Dir
	cmd.ExtraFiles = files
	b := StartBystander(m, cmd)
	if pid != 0 && b.PID != pid {
		i.T.Fatalf("the bystander runs as %v, want %d", b.PID, pid)
	}
	return b
}

// StartBystander starts a command that starts one, with the command's stdin and m as
// its marker.
func StartBystander(m *Marker, cmd *exec.Cmd) *Bystander {
	m.T.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		m.T.Fatal(err)
	}
	b := &Bystander{Process: Start(m.T, cmd), m: m, stdin: stdin}
	m.Wait("bystander", func(bool) bool { return len(m.Lines("ready")) > 0 || b.Exited() })
	if b.Exited() {
		m.T.Fatalf("bystander: %v", b.Process)
	}
	for b.PID = range m.Members(1) {
	}
	return b
}

// Untouched is nil if the bystander is alive and has had no signal so far.
func (b *Bystander) Untouched() error {
	if !b.m.Drain() {
		return fmt.Errorf("bystander %d is dead", b.PID)
	}
	if _, err := b.stdin.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("ask bystander %d: %w", b.PID, err)
	}
	b.asked++
	if got := b.m.Line("signals", b.asked); got[0] != "0" {
		return fmt.Errorf("bystander %d got %s signals", b.PID, got[0])
	}
	return nil
}

// MustBeUntouched fails the test unless it is untouched, and releases the bystander.
func (b *Bystander) MustBeUntouched() {
	b.T.Helper()
	if err := b.Untouched(); err != nil {
		b.T.Error(err)
	}
	b.stdin.Close()
	b.m.Gone()
	b.Wait()
}
