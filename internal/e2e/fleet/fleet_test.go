//go:build linux

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const (
	repository = "../../.."
	hostKey    = "/etc/ssh/ssh_host_ed25519_key" // with which the daemons sign, too
)

func TestMain(m *testing.M) {
	stage.Begin("test-fleet", repository)
	os.Exit(m.Run())
}

// The hosts: each is an sshd on the loopback. The good ones have a daemon each.
const good = 6

var bad = map[string]string{
	"down":    "onnection refused",        // no sshd
	"slow":    "no answer within 10s",     // its command never answers
	"bare":    "lineage is not installed", // no lineage in the PATH
	"refuses": "ermission denied",         // another key
}

// fleet is a client's side of the hosts: an ssh that reads the test's configuration.
type fleet struct {
	t     *testing.T
	dir   string
	hosts []*stage.Instance

	daemons []*stage.Process // of the hosts
}

func start(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	switch err := os.Mkdir("/run/sshd", 0o755); { // sshd needs it
	case err == nil:
		t.Cleanup(func() { os.Remove("/run/sshd") })
	case !errors.Is(err, os.ErrExist):
		t.Fatal(err)
	}
	for _, key := range []string{"user", "other"} {
		f.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.path(key))
	}
	host := require.ReadFile(t, hostKey+".pub")
	var config, known strings.Builder
	add := func(name string, settings ...string) {
		_, port, _ := strings.Cut(stage.FreeAddr(t), ":")
		fmt.Fprintf(
			&config,
			"Host %s\n HostName 127.0.0.1\n Port %s\n User root\n IdentityFile %s\n IdentitiesOnly yes\n UserKnownHostsFile %s\n",
			name,
			port,
			f.path("user"),
			f.path("known"),
		)
		fmt.Fprintf(&known, "[127.0.0.1]:%s %s", port, host)
		if settings != nil {
			f.sshd(name, port, settings)
		}
	}
	binary, err := filepath.Abs(filepath.Dir(stage.Lineage))
	require.NoError(t, err)
	for n := range good {
		i := stage.New(t)
		f.hosts, f.daemons = append(f.hosts, i), append(f.daemons, i.Daemon())
		add(fmt.Sprintf("h%d", n), fmt.Sprintf("SetEnv PATH=%s:/usr/bin:/bin LINEAGE_SOCKET=%s", binary, i.Socket))
	}
	add("down")
	add("slow", "ForceCommand exec sleep 60")
	add("bare", "SetEnv PATH=/nonexistent")
	add("refuses", "AuthorizedKeysFile "+f.path("other.pub"))
	f.write("known", known.String())
	f.write("config", config.String())
	ssh, err := exec.LookPath("ssh")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(f.path("bin"), 0o755))
	f.write("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, f.path("config")))
	require.NoError(t, os.Chmod(f.path("bin/ssh"), 0o755))
	return f
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fleet) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(text), 0o600))
}

func (f *fleet) must(name string, args ...string) {
	f.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		f.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// sshd runs until the test ends. If a setting is given twice, the first one counts.
func (f *fleet) sshd(name, port string, settings []string) {
	f.t.Helper()
	f.write(name+".sshd", strings.Join(append(settings,
		"ListenAddress 127.0.0.1:"+port, "HostKey "+hostKey, "AuthorizedKeysFile "+f.path("user.pub"),
		"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"PrintMotd no", "PrintLastLog no", ""), "\n"))
	program, err := exec.LookPath("sshd")
	require.NoError(f.t, err)
	stage.Start(f.t, exec.Command(program, "-D", "-e", "-f", f.path(name+".sshd")))
	until := time.Now().Add(20 * time.Second)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(until) {
			f.t.Fatalf("%s: %v", name, err)
		}
		time.Sleep(20 * time.Millisecond) // nothing reports that it listens
	}
}

func (f *fleet) names(all bool) string {
	var names []string
	for n := range f.hosts {
		names = append(names, fmt.Sprintf("h%d", n))
	}
	if all {
		for name := range bad {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// lineage runs a command line and checks its exit code.
func (f *fleet) lineage(want int, args ...string) string {
	f.t.Helper()
	cmd := exec.Command(stage.Lineage, args...)
	cmd.Env = append(os.Environ(), "PATH="+f.path("bin")+":"+os.Getenv("PATH"), "NO_COLOR=1")
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != want {
		f.t.Fatalf("lineage %v: exit %d, want %d: %v\n%s%s", args, code, want, err, &out, &stderr)
	}
	return out.String()
}

// answers parses -o json, by host.
func (f *fleet) answers(text string) map[string]answer {
	f.t.Helper()
	var doc struct{ Items []answer }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		f.t.Fatalf("%v: %s", err, text)
	}
	all := map[string]answer{}
	for _, a := range doc.Items {
		all[a.Host] = a
	}
	return all
}

type answer struct {
	Host, Error string
	Exit        int
	Document    struct {
		Items   []struct{ Name, Verdict string }
		Receipt string
		Session *struct{ Name string }
	}
}

// wants compares the failed hosts with the expected reasons.
func (f *fleet) wants(all map[string]answer) {
	f.t.Helper()
	if len(all) != good+len(bad) {
		f.t.Errorf("%d hosts: %+v", len(all), all)
	}
	for name, why := range bad {
		if a := all[name]; !strings.Contains(a.Error, why) || a.Exit != api.ExitUnreachable {
			f.t.Errorf("%s: %+v, want %s", name, a, why)
		}
	}
}

func TestTenHosts(t *testing.T) {
	f := start(t)
	var markers []*stage.Marker
	for _, i := range f.hosts {
		m := stage.NewMarker(t, i.Dir)
		markers = append(markers, m)
		i.Run(m, []string{"--name", "shared", "--grace", "0s"}, "daemonise", "stay")
		m.Ready()
	}

	began := time.Now()
	all := f.answers(f.lineage(api.ExitLeft, "ls", "-o", "json", "-H", f.names(true)))
	took := time.Since(began)
	f.wants(all)
	for n := range good {
		if a := all[fmt.Sprintf("h%d", n)]; a.Exit != 0 || len(a.Document.Items) != 1 || a.Document.Items[0].Name != "shared" {
			t.Errorf("h%d: %+v", n, a)
		}
	}
	if limit := 30 * time.Second; took > limit { // the slow host has 10 s
		t.Errorf("took %v, want at most %v", took, limit)
	}
	t.Logf("figure: ls over ten hosts, four of which fail: %v", took.Round(time.Millisecond))
	began = time.Now()
	f.lineage(api.ExitOK, "ls", "-H", f.names(false))
	t.Logf("figure: ls over six hosts: %v", time.Since(began).Round(time.Millisecond))

	// A session on one host only; the other hosts answer too.
	only := f.hosts[2].Record("shared")
	f.answers(f.lineage(api.ExitOK, "tree", only.ID, "-o", "json", "-H", f.names(false)))
	if a := f.answers(f.lineage(api.ExitOK, "why", fmt.Sprint(only.Root.PID), "-o", "json", "-H", f.names(false)))["h2"]; a.Document.Session == nil ||
		a.Document.Session.Name != "shared" {
		t.Errorf("why: %+v", a)
	}

	// First nothing is sent unless all hosts answer; then everything that can be sent.
	f.lineage(api.ExitLeft, "end", "shared", "--yes", "--all-or-none", "-H", f.names(true))
	for _, m := range markers {
		if !m.Drain() {
			t.Fatal("a session was ended although --all-or-none was not met")
		}
	}
	all = f.answers(f.lineage(api.ExitLeft, "end", "shared", "--yes", "-o", "json", "-H", f.names(true)))
	f.wants(all)
	for n := range good {
		a := all[fmt.Sprintf("h%d", n)]
		if a.Exit != 0 || len(a.Document.Items) != 1 || a.Document.Items[0].Verdict != string(api.VerdictClean) {
			t.Errorf("h%d: %+v", n, a)
		}
	}
	for _, m := range markers {
		m.MustBeGone()
	}
}
