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

// daemonWorld is a world whose daemon command only records its options.
func daemonWorld(t *testing.T, fail error) (w *world, asked *string) {
	w, asked = newWorld(t, newFake()), new(string)
	w.host.commands = func(a *app) []*cobra.Command {
		serve := func(_ context.Context, o daemon.Options) error {
			if len(o.Canary) == 0 {
				t.Error("no self-check")
			}
			o.Canary = nil
			*asked = fmt.Sprintf("serve %+v", o)
			return fail
		}
		unload := func(_ context.Context, socket string, force bool) error {
			*asked = fmt.Sprintf("unload %s %t", socket, force)
			return fail
		}
		return []*cobra.Command{a.daemonCommand(serve, unload)}
	}
	return w, asked
}

func TestDaemonOptions(t *testing.T) {
	const socket = "/run/lineage/lineage.sock"
	for line, want := range map[string]string{
		"daemon": "serve {Socket:" + socket + " SocketMode:-rw-rw-rw- SocketGroup: Ephemeral:0s Level:0 Policy: Version:v1.2.3 LogFile: Canary:[]}",
		"daemon --socket /tmp/s --socket-mode 0660 --socket-group lineage --ephemeral --level 3 --policy /p": "serve {Socket:/tmp/s SocketMode:-rw-rw---- SocketGroup:lineage Ephemeral:10m0s Level:3 Policy:/p Version:v1.2.3 LogFile: Canary:[]}",
		"daemon --ephemeral=3s":   "serve {Socket:" + socket + " SocketMode:-rw-rw-rw- SocketGroup: Ephemeral:3s Level:0 Policy: Version:v1.2.3 LogFile: Canary:[]}",
		"daemon --unload":         "unload " + socket + " false",
		"daemon --unload --force": "unload " + socket + " true",
	} {
		w, asked := daemonWorld(t, nil)
		if code, stdout, stderr := w.run(strings.Fields(line)...); code != 0 || stdout+stderr != "" || *asked != want {
			t.Errorf("%s: exit %d, %s%s: %s, want %s", line, code, stdout, stderr, *asked, want)
		}
	}
}

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
		w, _ := daemonWorld(t, tt.fail)
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
