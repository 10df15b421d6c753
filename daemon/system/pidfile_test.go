//go:build linux

package system

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// The test binary also runs as a process that holds an instance.
func init() {
	switch {
	case len(os.Args) > 3 && os.Args[1] == "lngtest-serving":
		os.Exit(serveAs(os.Args[2], os.Args[3]))
	case len(os.Args) > 2 && os.Args[1] == "lngtest-started":
		os.Exit(startedAs(os.Args[2]))
	}
}

// serveAs holds an instance in a process of its own, because record locks do not
// exclude their own process. It prints a line and waits for a SIGTERM.
func serveAs(socket, word string) int {
	i, err := InstanceOf(socket)
	if err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	s, err := i.HoldPIDFile(ctx, word == ephemeralWord)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Release() // an unreferenced file is closed by the collector
	if word == stoppingWord {
		if err := s.Stopping(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("serving")
	if word == stoppingWord {
		bufio.NewReader(os.Stdin).ReadString('\n')
		return 0
	}
	<-ctx.Done()
	return 0
}

// serving starts a process that holds an instance until the test ends, as serveAs does; it ends with in.
func serving(t *testing.T, i Instance, word string) (cmd *exec.Cmd, in io.Closer) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "lngtest-serving", i.Socket, word)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err = cmd.StdinPipe()
	require.NoError(t, err)
	started(t, cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "serving\n" {
		t.Fatalf("%q %v", line, err)
	}
	return cmd, in
}

// started starts a process that is killed when the test ends.
func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

func TestPIDFile(t *testing.T) {
	for _, tt := range []struct {
		word    string
		refused bool
	}{{"", true}, {ephemeralWord, false}, {stoppingWord, false}} {
		t.Run("a daemon "+tt.word, func(t *testing.T) {
			i := at(t, filepath.Join(t.TempDir(), "s"))
			cmd, in := serving(t, i, tt.word)
			if tt.word == stoppingWord {
				ctx, cancel := context.WithTimeout(t.Context(), 10*PollPause)
				defer cancel()
				if s, err := i.HoldPIDFile(ctx, false); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "does not stop") {
					t.Errorf("%v %v", s, err)
				}
				in.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := i.HoldPIDFile(ctx, false)
			if tt.refused {
				want := fmt.Sprintf("serve %s: a daemon is running as pid %d", i.Socket, cmd.Process.Pid)
				if !errors.Is(err, ErrRunning) || err.Error() != want {
					t.Errorf("%v, want %s", err, want)
				}
				return
			}
			require.NoError(t, err)
			defer s.Release()
			if text, err := os.ReadFile(i.pid); err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
				t.Errorf("%q %v", text, err)
			}
		})
	}
}

// TestTerminate: a process that does not hold the PID file any more is not signalled: its PID may
// be another process's since the file was read.
func TestTerminate(t *testing.T) {
	i := at(t, filepath.Join(t.TempDir(), "s"))
	holder, _ := serving(t, i, ephemeralWord)
	bystander := exec.Command("sleep", "60")
	started(t, bystander)
	f, err := os.OpenFile(i.pid, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	if pid, err := terminate(f, bystander.Process.Pid); pid != 0 || err != nil {
		t.Errorf("a process without the lock: %d, %v", pid, err)
	}
	if pid, err := terminate(f, holder.Process.Pid); pid != holder.Process.Pid || err != nil {
		t.Errorf("the holder: %d, %v", pid, err)
	}
	if err := holder.Wait(); err != nil {
		t.Errorf("the holder did not exit in order: %v", err)
	}
	require.NoError(t, bystander.Process.Signal(unix.SIGKILL))
	if err := bystander.Wait(); bystander.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("a process without the lock was signalled: %v", err)
	}
}

// The file of a killed daemon has no effect.
func TestPIDFileAfterAKill(t *testing.T) {
	i := at(t, filepath.Join(t.TempDir(), "s"))
	require.NoError(t, os.WriteFile(i.pid, []byte("1\n"), 0o600))
	s, err := i.HoldPIDFile(t.Context(), true)
	require.NoError(t, err)
	s.Release()
	if text, _ := os.ReadFile(i.pid); string(text) != fmt.Sprintf("%d\nephemeral\n", os.Getpid()) {
		t.Errorf("%q", text)
	}
}
