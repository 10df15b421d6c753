package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestDaemonErrors(t *testing.T) {
	for _, tt := range []struct {
		line string
		fail error
		code int
		want string
	}{
		{"daemon", tracer.ErrNotRoot, 4, "daemon: not root; run with sudo"},
		{"daemon --unload", tracer.ErrNotRoot, 4, "daemon: not root; run with sudo"},
		{"daemon", fmt.Errorf("open: %w", tracer.ErrNoBTF), 7,
			"daemon: open: the kernel has no BTF (/sys/kernel/btf/vmlinux); use a kernel with CONFIG_DEBUG_INFO_BTF=y"},
		{"daemon", errors.New("listen: address in use"), 1, "listen: address in use"},
	} {
		w := newWorld(t, newFake())
		w.host.commands = func(a *app) []*cobra.Command {
			return []*cobra.Command{a.daemonCommand(func(context.Context, daemon.Options) error { return tt.fail },
				func(context.Context, string, bool) error { return tt.fail })}
		}
		code, stdout, stderr := w.run(strings.Fields(tt.line)...)
		if code != tt.code || stdout != "" || stderr != "lineage: "+tt.want+"\n" {
			t.Errorf("%s: exit %d, %s%s\nwant exit %d, %s", tt.line, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// A signal stops the daemon; that is not a failure.
func TestDaemonInterrupted(t *testing.T) {
	w := newWorld(t, nil)
	w.host.commands = func(a *app) []*cobra.Command {
		serve := func(ctx context.Context, _ daemon.Options) error {
			w.signals <- os.Interrupt
			<-ctx.Done()
			return nil
		}
		return []*cobra.Command{a.daemonCommand(serve, nil)}
	}
	if code, _, stderr := w.run("daemon"); code != 0 || stderr != "" {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
