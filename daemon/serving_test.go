//go:build linux

package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// serveAs holds an instance, as a process of its own: a process does not keep
// itself from its own record locks. It says so and waits for a SIGTERM.
func serveAs(socket, word string) int {
	i, err := instanceOf(socket)
	if err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	s, err := i.serve(ctx, word == ephemeralWord)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.release() // a file that nobody has any more is closed
	if word == stoppingWord {
		if err := s.stopping(); err != nil {
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

func TestServing(t *testing.T) {
	for _, tt := range []struct {
		word    string
		refused bool
	}{{"", true}, {ephemeralWord, false}, {stoppingWord, false}} {
		t.Run("a daemon "+tt.word, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			i, err := instanceOf(socket)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe", "lngtest-serving", socket, tt.word)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
			})
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "serving\n" {
				t.Fatalf("%q %v", line, err)
			}
			if tt.word == stoppingWord {
				ctx, cancel := context.WithTimeout(t.Context(), 10*pollPause)
				defer cancel()
				if s, err := i.serve(ctx, false); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "does not stop") {
					t.Errorf("%v %v", s, err)
				}
				in.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := i.serve(ctx, false)
			if tt.refused {
				want := fmt.Sprintf("serve %s: a daemon is running as pid %d", socket, cmd.Process.Pid)
				if !errors.Is(err, ErrRunning) || err.Error() != want {
					t.Errorf("%v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.release()
			if text, err := os.ReadFile(i.pid); err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
				t.Errorf("%q %v", text, err)
			}
		})
	}
}

// What a killed daemon left in the file says nothing.
func TestServingAfterAKill(t *testing.T) {
	i, err := instanceOf(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.pid, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := i.serve(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	s.release()
	if text, _ := os.ReadFile(i.pid); string(text) != fmt.Sprintf("%d\nephemeral\n", os.Getpid()) {
		t.Errorf("%q", text)
	}
}

// TestSecondDaemon: a daemon that does not answer just now keeps its socket.
func TestSecondDaemon(t *testing.T) {
	needRoot(t)
	socket := filepath.Join(t.TempDir(), "s")
	first := lngtestDaemon("LNGTEST_HOST=1")(socket)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		first.Process.Kill()
		first.Wait()
	})
	answers := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, err := api.Dial(ctx, socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return answers(), nil }); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h := thisHost()
	h.open = func(tracer.Options) (kernel, error) { return nil, errors.New("not reached") }
	if err := h.serve(ctx, Options{Socket: socket}, nil, zerolog.Nop()); !errors.Is(err, ErrRunning) {
		t.Errorf("a second daemon: %v", err)
	}
	if err := first.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := poll(ctx, func() (bool, error) { return answers(), nil }); err != nil {
		t.Error("the first daemon has no socket any more")
	}
}

// TestSocketOfAnother: what listens on the socket and answers nothing keeps it,
// as a service manager's does while its daemon starts.
func TestSocketOfAnother(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if c, err := Connect(ctx, ConnectOptions{Socket: socket, Command: lngtestDaemon()}); err == nil {
		c.Close()
		t.Error("something answered")
	}
	if n := starts(t, dir); n != 0 {
		t.Errorf("%d daemons were started", n)
	}
	i, err := instanceOf(socket)
	if err != nil {
		t.Fatal(err)
	}
	lock, alone, err := i.claim(t.Context(), Options{}, &readiness{}, false)
	if err == nil {
		alone.release()
		lock.release()
		t.Error("a daemon claims the socket of another program")
	}
	if c, err := net.Dial("unix", socket); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}
