package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// program is a script that gets the path of the socket as $socket.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nfor a; do case $a in --socket=*) socket=${a#--socket=};; esac; done\n"+script), 0o755))
	return path
}

// TestStart: an error of the program is the command's, with its exit code; the directory is the user's own,
// and is gone afterwards; a program that does not end is killed.
func TestStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	empty := func() {
		t.Helper()
		left, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		require.Equal(t, len(left), 0)
	}
	o := &service.LinkOptions{Servers: []string{"tls://a"}, Nkey: "k", Name: "ann"}
	log := filepath.Join(t.TempDir(), "log")
	_, err := StartNATSLink(t.Context(), program(t, `echo "$*" >`+log+"\necho 'a log line' >&2\necho 'lineage: NATS: not connected' >&2\nexit 5\n"), o)
	if err == nil || err.Error() != "NATS: not connected" || Code(err) != 5 {
		t.Errorf("%v", err)
	}
	require.Contains(t, string(require.ReadFile(t, log)), "operator --socket=", " --server=tls://a --name=ann --nkey=k\n")
	for _, script := range []string{"exit 0", "echo hello; cat", "kill -9 $$"} {
		if _, err := StartNATSLink(t.Context(), program(t, script), o); err == nil || Code(err) != 1 || err.Error() == "" {
			t.Errorf("%s: %v", script, err)
		}
	}
	if _, err = StartNATSLink(t.Context(), "/nonexistent/program", o); err == nil {
		t.Error("a program that does not exist")
	}
	empty()
	l, err := StartNATSLink(t.Context(), program(t, "stat -c %a $(dirname $socket) >"+log+"\necho ready\nexec sleep 60\n"), o)
	require.NoError(t, err)
	require.Equal(t, string(require.ReadFile(t, log)), "700\n")
	if _, err := l.Dial(t.Context(), "root@web1"); err == nil || Code(err) != 2 {
		t.Errorf("%v", err)
	}
	began := time.Now()
	l.Close()
	if took := time.Since(began); took < endTime || took > 10*endTime {
		t.Errorf("closed after %v", took)
	}
	empty()
	(*NATSLink)(nil).Close()
}

// TestHosts: a host is listed once, also if it said again that it is there while the list was read.
func TestHosts(t *testing.T) {
	for said, want := range map[string]string{`{"names":["web2","web1","web2"]}`: "web1,web2 <nil>",
		`{"error":"no stream"}`: " NATS: no list of the hosts: no stream"} {
		l, err := StartNATSLink(t.Context(), program(t, "echo ready\nread line\n[ \"$line\" = hosts ] && echo '"+said+"'\n"), &service.LinkOptions{})
		require.NoError(t, err)
		list, err := l.Hosts()
		require.Equal(t, fmt.Sprint(list.String(), " ", err), want)
		l.Close()
	}
}

// TestNames: a host has the same name for ssh and in subjects.
func TestNames(t *testing.T) {
	for _, name := range []string{"web1", "web1_example_org", "a-b"} {
		host := service.HostOf(name)
		if service.NameOf(host) != name || slices.Contains([]byte(host), '_') {
			t.Errorf("%s is %s", name, host)
		}
	}
}
