//go:build linux

package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// writeOn writes batch after batch and prints which are in the file, until it is
// killed.
func writeOn(path string) error {
	j := OpenJournal(path, JournalOptions{Boot: "b1", Now: time.Now})
	if err := j.Err(); err != nil {
		return err
	}
	last, err := j.Ended(context.Background(), Query{Limit: 1})
	if err != nil {
		return err
	}
	n := uint64(0)
	if len(last) > 0 {
		n = uint64(last[0].ID)
	}
	for range 100000 {
		n++
		b := Batch{Sessions: []Session{session(n, noon)}, Events: records(n*10, 10, 0), Zero: noon,
			Processes: []Process{{PID: 5, Start: n, Session: tracer.SessionID(n), Doc: []byte(`{}`)}}}
		if err := j.Write(context.Background(), &b); err != nil {
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// A writer that is killed at any moment loses at most its current batch, all of it, and
// never the file.
func TestKilled(t *testing.T) {
	path := journalHistory(t)
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "lngtest-writer", path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		printed := uint64(0)
		for range 3 + 7*round {
			_, err := fmt.Fscanln(lines, &printed)
			require.NoError(t, err)
		}
		cmd.Process.Kill()
		for { // what it printed before it died
			if _, err := fmt.Fscanln(lines, &printed); err != nil {
				break
			}
		}
		cmd.Wait()
		j := open(t, path)
		if err := errors.Join(j.Err(), j.Check(t.Context())); err != nil || j.Stats().Aside != 0 {
			t.Fatalf("round %d: %v %q", round, err, j.Degraded())
		}
		last, err := j.Ended(t.Context(), Query{Limit: 1})
		if err != nil || len(last) != 1 || uint64(last[0].ID) < printed || uint64(last[0].ID) > printed+1 {
			t.Fatalf("round %d: %d was printed, %+v is there: %v", round, printed, last, err)
		}
		n := uint64(last[0].ID)
		got := seq(j.Next(t.Context(), 0, time.Time{}, "b1", n*10)) + " " + seq(j.Next(t.Context(), 0, time.Time{}, "b1", n*10+10)) +
			" " + listed(j.Processes(t.Context(), "b1", tracer.SessionID(n)))
		if want := fmt.Sprint(n*10, " <nil> 5 <nil>"); got != want {
			t.Fatalf("round %d: half a batch: %s, want %s", round, got, want)
		}
		j.Close()
	}
}

// TestShort runs short in a mount namespace of its own, with a small tmpfs.
func TestShort(t *testing.T) {
	require.Root(t)
	for _, kind := range []string{"full", "full at once", "read-only file", "read-only directory"} {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "lngtest-short", t.TempDir(), kind)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// short makes a journal in dir run out of the resource of that kind, and then frees it.
func short(dir, kind string) error {
	mount := func(flags uintptr, data string) error {
		if err := unix.Mount("tmpfs", dir, "tmpfs", flags, data); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	small := "size=1m"
	if kind == "full at once" {
		small = "size=8k"
	}
	if err := mount(0, small); err != nil {
		return err
	}
	now, ctx := noon, context.Background()
	var changes []error
	path := filepath.Join(dir, "state", "history.db")
	begin := func() *Journal {
		return OpenJournal(path, JournalOptions{Boot: "b1", Now: func() time.Time { return now }, Changed: func(err error, aside string) {
			if aside != "" {
				err = errors.New(aside)
			}
			changes = append(changes, err)
		}})
	}
	next := uint64(0)
	one := func(j *Journal) error {
		next++
		s := session(next, noon)
		s.Doc = []byte(strings.Repeat("x", 10000))
		return j.Write(ctx, &Batch{Sessions: []Session{s}})
	}
	kept := uint64(0)
	if kind != "full at once" {
		j := begin()
		for range 3 {
			if err := one(j); err != nil {
				return err
			}
		}
		j.Close()
		kept = 3
	}
	if strings.HasPrefix(kind, "read-only") {
		if kind == "read-only directory" {
			if err := os.Rename(filepath.Join(dir, "state"), filepath.Join(dir, "elsewhere")); err != nil {
				return err
			}
			kept = 0
		}
		if err := mount(unix.MS_REMOUNT|unix.MS_RDONLY, small); err != nil {
			return err
		}
	}
	j := begin()
	failed := j.Err()
	for n := 0; failed == nil && n < 1000; n++ {
		if failed = one(j); failed == nil {
			kept++
		}
	}
	switch {
	case failed == nil || j.Err() == nil:
		return fmt.Errorf("nothing failed: %w", j.Err())
	case len(changes) != 1 || changes[0] == nil:
		return fmt.Errorf("changes %q", changes)
	case len(j.Degraded()) != 1 || j.Stats().Aside != 0:
		return fmt.Errorf("degraded %q %+v", j.Degraded(), j.Stats())
	case j.Due():
		return errors.New("it would be tried again at once")
	}
	if one(j) == nil {
		return errors.New("it is written though there is no room")
	}
	now = now.Add(2 * time.Minute)
	if !j.Due() {
		return errors.New("it is not tried again")
	}
	if err := mount(unix.MS_REMOUNT, "size=64m"); err != nil {
		return err
	}
	if err := one(j); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	kept++
	if j.Err() != nil || len(changes) != 2 || changes[1] != nil || j.Degraded() != nil {
		return fmt.Errorf("err %w, changes %q, degraded %q", j.Err(), changes, j.Degraded())
	}
	j.Close()
	j = begin()
	defer j.Close()
	all, err := j.Ended(ctx, Query{Limit: 10000})
	if err := errors.Join(err, j.Check(ctx)); err != nil || uint64(len(all)) != kept || j.Stats().Aside != 0 {
		return fmt.Errorf("%d sessions are there, %d were kept: %w", len(all), kept, err)
	}
	return nil
}
