//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a pulse does, and how many times for one sample.
var kinds = []struct {
	name  string
	count int
}{
	{"vfork", 3000},
	{"fork", 2000},
	{"exec", 600},
}

// settling is how long a daemon is busy after its start.
const settling = 2 * time.Second

// spawn compares a host with a daemon and without one: a child that is waited for, and
// a build of 50 small C files. The daemon has its history on and a session, and reads
// its events.
func spawn(ctx context.Context, r *report) error {
	const rounds = 12
	stranger, err := start(ctx, -1, "pulse")
	if err != nil {
		return err
	}
	defer stranger.stop()
	if err := stranger.pin(); err != nil {
		return err
	}
	b, err := newBuild()
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := spawnAll(ctx, &report{out: discard{}}, "", "", stranger, b); err != nil { // warm up
		return err
	}
	for range rounds {
		// An outsider without and with a daemon, and a member.
		if err := spawnAll(ctx, r, "stranger", "off", stranger, b); err != nil {
			return err
		}
		if err := traced(ctx, r, stranger, b); err != nil {
			return err
		}
	}
	return nil
}

// traced is the half of a round that has a daemon.
func traced(ctx context.Context, r *report, stranger *worker, b *build) (err error) {
	d, err := startDaemon(ctx, lineageBin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	member, err := start(ctx, -1, "pulse")
	if err != nil {
		return err
	}
	defer member.stop()
	if err := member.pin(); err != nil {
		return err
	}
	s, err := d.adopt(ctx, member)
	if err != nil {
		return err
	}
	time.Sleep(settling)
	if err := spawnAll(ctx, r, "stranger", "on", stranger, b); err != nil {
		return err
	}
	inside := *b
	inside.under = []string{lineageBin, "--socket", d.socket, "run", "-q", "--"}
	if err := spawnAll(ctx, r, "member", "on", member, &inside); err != nil {
		return err
	}
	return d.end(ctx, s.ID)
}

func spawnAll(ctx context.Context, r *report, who, tracing string, w *worker, b *build) error {
	for _, k := range kinds {
		took, err := w.do(k.name, k.count, 0)
		if err != nil {
			return err
		}
		r.sample(fmt.Sprintf("Spawn/what=%s/who=%s/tracing=%s", k.name, who, tracing), uint64(k.count), float64(took.Nanoseconds()), "ns/op")
	}
	took, err := b.run(ctx)
	if err != nil {
		return err
	}
	r.took(fmt.Sprintf("Spawn/what=make/who=%s/tracing=%s", who, tracing), took)
	return nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// A build is make with small C files: gcc, cc1 and as for each.
type build struct {
	dir   string
	under []string // what make runs under
}

const sources = 50

func newBuild() (*build, error) {
	dir, err := os.MkdirTemp("", "lngtest-build-")
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range sources {
		name := fmt.Sprintf("f%d", i)
		names = append(names, name+".o")
		text := fmt.Sprintf("int %s(int a) { return a * %d; }\n", name, i)
		if err := os.WriteFile(filepath.Join(dir, name+".c"), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	text := "all: " + strings.Join(names, " ") + "\n%.o: %.c\n\t@test -e $@ || gcc -c -o $@ $<\n"
	return &build{dir: dir}, os.WriteFile(filepath.Join(dir, "Makefile"), []byte(text), 0o644)
}

// run is one whole build. In a session it counts from the build's first exec to its
// exit, without what lineage itself does before and after.
func (b *build) run(ctx context.Context) (time.Duration, error) {
	objects, err := filepath.Glob(filepath.Join(b.dir, "*.o"))
	if err != nil {
		return 0, err
	}
	for _, path := range objects {
		if err := os.Remove(path); err != nil {
			return 0, err
		}
	}
	script := fmt.Sprintf(`began=${EPOCHREALTIME/./}; make -s -j2 -C %s || exit; echo $((${EPOCHREALTIME/./} - began))`, b.dir)
	args := append(b.under, "bash", "-c", script)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("make: %w", err)
	}
	var us int64
	if _, err := fmt.Sscan(string(out), &us); err != nil {
		return 0, fmt.Errorf("make: %q: %w", out, err)
	}
	return time.Duration(us) * time.Microsecond, nil
}
