//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// hostKey is the key with which the daemons of this host sign.
const hostKey = "/etc/ssh/ssh_host_ed25519_key.pub"

// fleet is three hosts of one server, and an operator.
type fleet struct {
	*commanded
	hosts []*world
	bin   string // has an ssh that knows the keys of the hosts
}

// newFleet has the first two hosts know the operator, and the third one if all do.
func newFleet(t *testing.T, all bool) *fleet {
	t.Helper()
	f := &fleet{commanded: newCommanded(t), bin: t.TempDir()}
	f.hosts = []*world{f.world, f.peer("web2", operated, f.knows)}
	if all {
		f.hosts = append(f.hosts, f.peer("web3", operated, f.knows))
	} else {
		f.hosts = append(f.hosts, f.peer("web3", ""))
	}
	f.known()
	f.Until("three hosts", func() bool { return len(f.answers(0, "ls")) == 3 })
	return f
}

// known makes an ssh that knows the keys of the hosts.
func (f *fleet) known() {
	f.T.Helper()
	known := filepath.Join(f.bin, "known")
	require.NoError(
		f.T,
		os.WriteFile(known, append([]byte("web1,web2,web3,web9 "), require.ReadFile(f.T, hostKey)...), 0o600),
		os.WriteFile(
			filepath.Join(f.bin, "ssh"),
			fmt.Appendf(nil, "#!/bin/sh\nprintf 'hostname %%s\\nport 22\\nuserknownhostsfile %s\\nglobalknownhostsfile %s\\n' \"$3\"\n", known, known),
			0o755,
		),
	)
}

// groups writes a file of groups for -H, with the hosts that are there as @all, and returns the variable that names it.
func (w *world) groups(dir string) string {
	file := filepath.Join(dir, "hosts.yaml")
	text := fmt.Sprintf("all: {transport: nats, servers: [%q], nkey: %q, ca: %q, name: ann}\n", w.url(),
		filepath.Join(w.dir, "ann.seed"), filepath.Join(w.dir, "cert.pem"))
	require.NoError(w.T, os.WriteFile(file, []byte(text), 0o600))
	return "LINEAGE_HOSTS=" + file
}

// command is lineage with args, as the operator. Without -H it asks all hosts.
func (f *fleet) command(args ...string) *exec.Cmd {
	if i := slices.Index(args, "-H"); i < 0 {
		args = append(args, "-H", "@all")
	} else {
		args[i+1] = "@all:" + strings.ReplaceAll(args[i+1], ",", ",@all:")
	}
	return f.Command(args, []string{"LINEAGE_SOCKET=", f.groups(f.bin), "PATH=" + f.bin + ":" + os.Getenv("PATH"), "TMPDIR=" + f.bin})
}

// fleet runs a command, and checks its exit code. With a code below 0 any is good.
func (f *fleet) fleet(code int, args ...string) *stage.Process {
	f.T.Helper()
	p := stage.Start(f.T, f.command(args...)).Wait()
	if code >= 0 && p.Code() != code {
		f.T.Fatalf("exit %d, want %d: %v", p.Code(), code, p)
	}
	return p
}

type answer struct {
	Host, Error string
	Exit        int
	Document    json.RawMessage
}

func (f *fleet) answers(code int, args ...string) []answer {
	f.T.Helper()
	var doc struct{ Items []answer }
	p := f.fleet(code, append(args, "-o", "json")...)
	require.NoError(f.T, json.Unmarshal(p.Out.Bytes(), &doc))
	return doc.Items
}

// idle is how long a session is idle now, which differs each time.
var idle = regexp.MustCompile(`"idle_seconds": [0-9.e-]+,`)

// TestFleet: over the bus the hosts give what their sockets give, byte for byte; a host without an answer is
// named; an end needs a signature, and stops where something is left.
func TestFleet(t *testing.T) {
	f := newFleet(t, false)
	var ids []string
	for _, h := range f.hosts {
		h.Start([]string{"run", "--name", "shared", "--grace", "0s", "--", "sleep", "600"}, nil)
		h.Until("session", func() bool { return h.Lineage("tree", "shared").Code() == 0 })
		ids = append(ids, h.Session("shared").ID)
		h.Start([]string{"run", "--name", "over", "--", "true"}, nil).Wait()
	}
	root := fmt.Sprint(f.hosts[1].Session("shared").Root.PID)
	for _, args := range [][]string{{"ls"}, {"ls", "--all"}, {"ls", "--left"}, {"tree", "shared"}, {"tree"}, {"history"},
		{"history", "over", "--all"}, {"why", root}} {
		f.Agrees(fmt.Sprint(args), func() error {
			for n, a := range f.answers(-1, args...) {
				if args[0] == "why" && n != 1 {
					continue // for a process of no session this host also knows the ancestors
				}
				p := f.hosts[n].StartReader(nil, append(args, "-o", "json")...).Wait()
				var here, there bytes.Buffer
				if p.Code() != a.Exit || a.Exit != 0 && !strings.HasSuffix(strings.TrimSpace(p.Err.String()), a.Error) {
					return fmt.Errorf("%+v, here %v", a, p)
				}
				p.Out.Truncate(copy(p.Out.Bytes(), idle.ReplaceAll(p.Out.Bytes(), nil)))
				a.Document = idle.ReplaceAll(a.Document, nil)
				if a.Exit == 0 && (json.Compact(&here, p.Out.Bytes()) != nil || json.Compact(&there, a.Document) != nil ||
					!bytes.Equal(here.Bytes(), there.Bytes())) {
					return fmt.Errorf("%s: %s\nover the bus %s\nhere         %s", a.Host, args, &there, &here)
				}
			}
			return nil
		})
	}
	if a := f.answers(api.ExitOK, "why", root)[1]; a.Exit != 0 || !bytes.Contains(a.Document, []byte(`"shared"`)) {
		t.Errorf("%+v", a)
	}
	began := time.Now()
	f.fleet(api.ExitOK, "ls")
	t.Logf("figure: ls over three hosts in %v", time.Since(began).Round(time.Millisecond))

	// A host that never was there, and one whose link hangs.
	all := f.answers(api.ExitLeft, "ls", "-H", "web1,web9")
	if all[0].Exit != 0 || all[1].Exit != api.ExitUnreachable || !strings.Contains(all[1].Error, "no link of this host") {
		t.Errorf("%+v", all)
	}
	require.NoError(t, f.hosts[2].links.Process.Signal(syscall.SIGSTOP))
	began = time.Now()
	all = f.answers(api.ExitLeft, "ls", "-H", "web1,web2,web3")
	if a := all[2]; all[0].Exit+all[1].Exit != 0 || a.Exit != api.ExitUnreachable || !strings.Contains(a.Error, "no answer within") {
		t.Errorf("%+v", all)
	}
	t.Logf("figure: with a host that hangs in %v", time.Since(began).Round(time.Millisecond))
	require.NoError(t, f.hosts[2].links.Process.Signal(syscall.SIGCONT))

	// Ends.
	f.fleet(api.ExitUsage, "end", "shared", "--yes")
	live := func(n int) bool { return f.hosts[n].Record(ids[n]).State == api.StateActive }
	signed := []string{"end", "shared", "--sign", f.key, "--reason", "case 7", "--yes"}
	all = f.answers(api.ExitLeft, append(signed, "-H", "web3,web9")...)
	if !live(2) || all[0].Exit != api.ExitDenied || !strings.Contains(all[0].Error, "command refused") || all[1].Exit != api.ExitUnreachable {
		t.Errorf("%+v", all)
	}
	p := f.fleet(api.ExitUsage, append(signed, "--max-hosts", "2")...)
	if !live(0) || !strings.Contains(p.Err.String(), "--max-hosts") {
		t.Error(p)
	}
	all = f.answers(api.ExitOK, append(signed, "-H", "web1,web2")...)
	for n, a := range all {
		var d api.CommandReply
		require.NoError(t, json.Unmarshal(a.Document, &d))
		if r := receipt(t, &d); a.Exit != 0 || !r.Complete || len(r.Reports) != 1 || r.Reports[0].Session != ids[n] || r.Reports[0].Verdict != api.VerdictClean {
			t.Errorf("%+v: %+v", a, r)
		}
	}
	if !live(2) {
		t.Error("the host that was not named has ended its session")
	}
	f.hosts[2].Must("end", "shared", "--now", "--yes")
	leaves(t, f)
}

// leaves: no program and no directory of a command is left.
func leaves(t *testing.T, f *fleet) {
	t.Helper()
	f.Until("end of the programs", func() bool {
		left, err := filepath.Glob(filepath.Join(f.bin, "lineage-nats-*"))
		return err == nil && len(left) == 0
	})
	// A command that is killed: its program notices.
	cmd := f.command("tree")
	require.NoError(t, cmd.Start())
	cmd.Process.Kill()
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
	f.Until("end of the program of a command that was killed", func() bool {
		left, err := filepath.Glob(filepath.Join(f.bin, "lineage-nats-*"))
		return err == nil && len(left) == 0
	})
}
