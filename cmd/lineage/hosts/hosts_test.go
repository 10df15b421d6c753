package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestMain is also the program that the fake ssh runs "on a host": it connects stdin
// and stdout to a socket.
func TestMain(m *testing.M) {
	if socket := os.Getenv("LNGTEST_RELAY"); socket != "" {
		c, err := net.Dial("unix", socket)
		if err != nil {
			fmt.Fprintln(os.Stderr, "lineage: no daemon at", socket)
			os.Exit(api.ExitUnreachable)
		}
		go io.Copy(os.Stdout, c)
		io.Copy(c, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeSSH puts a fake ssh that knows a few hosts into the PATH, and returns the file
// where it logs its arguments.
func fakeSSH(t *testing.T) (log string) {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderAPI, "1")
		io.WriteString(w, `{"schema":"lineage/1","kind":"version","version":"0.1.0","api":1,"level":4}`)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	log = filepath.Join(dir, "log")
	script := fmt.Sprintf(`#!/bin/sh
echo "$*" >> %[1]s
while [ "$1" != -- ]; do shift; done
case $2 in
up*) LNGTEST_RELAY=%[2]s exec %[3]s ;;
idle) LNGTEST_RELAY=%[2]s.none exec %[3]s ;;
down) echo 'Warning: some banner' >&2; echo 'ssh: connect to host down port 22: Connection refused' >&2; exit 255 ;;
bare) echo 'sh: 1: lineage: not found' >&2; exit 127 ;;
mute) exit 255 ;;
slow) exec sleep 60 ;;
nonsense) echo 'Welcome to this host'; exec sleep 60 ;;
esac
`, log, socket, os.Args[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return log
}

func version(ctx context.Context, _ string, c api.Client) (*text.Listing, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	return &text.Listing{Names: []string{v.Version}}, nil
}

func TestEach(t *testing.T) {
	log := fakeSSH(t)
	list := []string{"up1", "down", "idle", "bare", "mute", "slow", "up2", "nonsense"}
	began := time.Now()
	answers := Each(t.Context(), Dial, list, 6*time.Second, version)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	want := []string{
		"0.1.0", "error: ssh: connect to host down port 22: Connection refused", "error: no daemon at ",
		"error: lineage is not installed there", "error: ssh exited with 255", "error: no answer within 6s", "0.1.0", "error: ",
	}
	for i, a := range answers {
		var got string
		if a.Err != nil {
			got = "error: " + a.Err.Error()
		} else {
			got = a.Listing.Names[0]
		}
		if a.Host != list[i] || !strings.HasPrefix(got, want[i]) {
			t.Errorf("%s: %q, want %q", a.Host, got, want[i])
		}
	}
	require.Eventually(t, "no ssh is left running", func() bool {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		return errors.Is(err, unix.ECHILD)
	})
	calls := require.ReadFile(t, log)
	const asked = "-T -a -x -o BatchMode=yes -o ClearAllForwardings=yes -- up1 lineage stdio\n"
	require.Contains(t, string(calls), asked)
}

// TestManyHosts: all hosts are queried, at most 32 at once.
func TestManyHosts(t *testing.T) {
	fakeSSH(t)
	list := make([]string, 200)
	for i := range list {
		list[i] = fmt.Sprintf("up%d", i)
	}
	var now, most atomic.Int32
	dial := func(ctx context.Context, host string) (api.Client, error) {
		n := now.Add(1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		return Dial(ctx, host)
	}
	began := time.Now()
	answers := Each(t.Context(), dial, list, time.Minute, func(ctx context.Context, host string, c api.Client) (*text.Listing, error) {
		defer now.Add(-1)
		return version(ctx, host, c)
	})
	for _, a := range answers {
		if a.Err != nil || a.Listing.Names[0] != "0.1.0" {
			t.Fatalf("%s: %v", a.Host, a.Err)
		}
	}
	if n := most.Load(); n < 2 || n > AtOnce {
		t.Errorf("%d at once, want up to %d", n, AtOnce)
	}
	t.Logf("figure: %d hosts in %v, %d at once", len(list), time.Since(began).Round(time.Millisecond), most.Load())
}

// TestDialEnds: ssh ends with the client.
func TestDialEnds(t *testing.T) {
	fakeSSH(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	c, err := Dial(ctx, "slow")
	if err == nil {
		c.Close()
		t.Fatal("a host that never answers was reached")
	}
	t.Setenv("PATH", t.TempDir())
	_, err = Dial(t.Context(), "up")
	if f, ok := errors.AsType[*Failure](err); !ok || !strings.HasPrefix(f.Error(), "cannot run ssh: ") {
		t.Errorf("without ssh: %v", err)
	}
}

func TestList(t *testing.T) {
	for text, want := range map[string][]string{
		"web1":              {"web1"},
		"web1,web2,web1":    {"web1", "web2"},
		"a@b.example,[::1]": {"a@b.example", "[::1]"},
	} {
		var f Flag
		if err := f.Set(text); err != nil || !slices.Equal(f.List, want) {
			t.Errorf("%s: %q, %v", text, f.List, err)
		}
	}
	for text, want := range map[string]string{
		"":                       "one is empty",
		"web1,":                  "one is empty",
		"-oProxyCommand=x":       "begins with -",
		"web1,-x":                "begins with -",
		"we b":                   "contains blanks",
		"web1\n":                 "contains blanks",
		"web\x1b[0m":             "control characters",
		strings.Repeat("a", 256): "longer than 255 bytes",
	} {
		var f Flag
		require.Contains(t, fmt.Sprint(f.Set(text)), want)
	}
}

// TestGroups: @NAME is a group of hosts.yaml; a file of others is refused.
func TestGroups(t *testing.T) {
	t.Chdir(t.TempDir())
	const text = `web: {hosts: [web1, root@web2]}
far:
  transport: nats
  servers: [tls://nats.example.org:4222]
  nkey: ann.nk
`
	for _, tt := range []struct {
		file string
		mode os.FileMode
		arg  string
		want string // the hosts and groups, or the error
	}{
		{text, 0o644, "@web,web3,web1", "web1,root@web2,web3"},
		{text, 0o644, "web3,@far", "web3 far[]"},
		{text, 0o644, "@far:web1,@far:web2", " far[web1] far[web2]"},
		{text, 0o644, "@none", `hosts.yaml has no group "none", only far, web`},
		{text, 0o666, "@web", "others can write it; use chmod go-w "},
		{text, 0o644, "@web:-x", `group web: invalid host "-x"`},
		{text, 0o644, "@far:", `group far: invalid host ""`},
		{"a: {}", 0o644, "@a", "group a: hosts is missing"},
		{"a: {transport: nats}", 0o644, "@a", "group a: servers is missing"},
		{"a: {transport: bus}", 0o644, "@a", `group a: invalid transport "bus": must be ssh or nats`},
		{"a: {hosts: [b], nkey: k}", 0o644, "@a", "group a: servers, nkey, creds, ca and name need transport: nats"},
		{"a: {transport: nats, servers: [tls://a], hosts: ['b,c']}", 0o644, "@a", `group a: invalid host "b,c"`},
		{"a: {host: b}", 0o644, "@a", "field host not found"},
		{"- a", 0o644, "@a", "cannot construct"},
		{"#" + strings.Repeat(" ", 1<<20), 0o644, "@a", "hosts.yaml: larger than 1 MiB"},
	} {
		require.NoError(t, os.WriteFile("hosts.yaml", []byte(tt.file), 0o600), os.Chmod("hosts.yaml", tt.mode))
		f := Flag{Env: func(string) string { return "hosts.yaml" }}
		err := f.Set(tt.arg)
		got := f.String()
		for _, g := range f.Groups {
			got += fmt.Sprintf(" %s%v", g.Key, g.Hosts)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "hosts or @GROUP; ") {
				t.Errorf("%s: %v", tt.arg, err)
			}
			got = tt.want
			require.Contains(t, err.Error(), tt.want)
		}
		require.Equal(t, got, tt.want)
	}
}

// TestWriteAfterEnd: ssh may be gone before the first request is written. Then Write fails
// with the reason that Read found, even if the connection was closed in between.
func TestWriteAfterEnd(t *testing.T) {
	fakeSSH(t)
	c, err := connect("down")
	require.NoError(t, err)
	_, found := c.Read(make([]byte, 1))
	_, open := c.Write([]byte("GET"))
	c.Close()
	_, closed := c.Write([]byte("GET"))
	for _, err := range []error{found, open, closed} {
		if _, ok := errors.AsType[*Failure](err); !ok {
			t.Errorf("%v", err)
		}
	}
}
