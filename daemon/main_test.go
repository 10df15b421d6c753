//go:build linux

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// TestMain also runs this binary as the daemon that Connect starts: first word lngtest-daemon,
// with a kernel made of Go; and as a process that favours itself: first word lngtest-favoured.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lngtest-favoured" {
		os.Exit(daemon.Favoured())
	}
	if len(os.Args) > 2 && os.Args[1] == "lngtest-daemon" {
		os.Exit(fakeDaemon(os.Args[2]))
	}
	os.Exit(daemontest.Main(m))
}

// fakeDaemon serves socket until a signal, or until it is idle. It notes each start in a file beside the socket.
func fakeDaemon(socket string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	starts, err := os.OpenFile(filepath.Join(filepath.Dir(socket), "starts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	fmt.Fprintln(starts, os.Getpid())
	starts.Close()
	ready := system.InheritedPipe()
	if os.Getenv("LNGTEST_REFUSE") != "" {
		err = errors.New("no bpffs; run: mount -t bpf -o mode=0700 bpf /sys/fs/bpf")
		ready.Report(err)
		return 1
	}
	if os.Getenv("LNGTEST_DIE") != "" {
		return 1
	}
	k := kerneltest.New()
	k.Add(uint32(os.Getpid()), 1, "lngtest-daemon")
	k.Add(uint32(os.Getppid()), 1, "lngtest-caller")
	h := daemon.ThisHost()
	h.Open = func(tracer.Options) (daemon.Kernel, error) { return k, nil }
	h.Unload = func(string) error {
		return os.WriteFile(filepath.Join(filepath.Dir(socket), "unloaded"), nil, 0o600)
	}
	err = h.Serve(ctx, daemon.Options{Socket: socket, Ephemeral: time.Second, Version: "lngtest"}, ready, zerolog.New(os.Stderr))
	ready.Report(err)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
