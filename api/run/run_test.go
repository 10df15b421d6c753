//go:build linux

package run_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
	"github.com/lineage-ebpf/lineage/api/run"
)

// stub is as much of lineage as the package uses, without ending what the command leaves: the
// real program is tested in internal/e2e/library.
const stub = `#!/bin/sh
verb=$1; shift
[ "$verb" != doctor ] || exit 7
while [ "$1" != -- ]; do
	case $1 in
		--report=*) report=${1#--report=} ;;
		*) given="$given $1" ;;
	esac
	shift
done
shift
exec 3<&0
trap 'kill -TERM $!' TERM
"$@" <&3 &
child=$!
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
printf '{"verdict": "clean", "verdict_why": "%s"}' "$verb$given" >"$report"
exit $code
`

func command(t *testing.T, ctx context.Context, script string) *run.Cmd {
	t.Helper()
	cmd := run.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Lineage, cmd.Socket = filepath.Join(t.TempDir(), "lineage"), filepath.Join(t.TempDir(), "socket")
	require.NoError(t, os.WriteFile(cmd.Lineage, []byte(stub), 0o755))
	return cmd
}

func TestOutput(t *testing.T) {
	cmd := command(t, t.Context(), "cat; echo err >&2; exit 7")
	cmd.Stdin, cmd.Name, cmd.Grace = strings.NewReader("in\n"), "unused", time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || string(exit.Stderr) != "err\n" || string(out) != "in\n" {
		t.Errorf("output %q, error %v", out, err)
	}
	require.Equal(t, cmd.Guarantee(), run.Subreaper)
	if r := cmd.Report(); r == nil || r.Verdict != api.VerdictClean || r.VerdictWhy != "init --grace=1s --quiet" {
		t.Errorf("report: %+v", r)
	}
	_, err = cmd.Session()
	require.Equal(t, err, run.ErrNoSession)
	if both, err := command(t, t.Context(), "echo out; echo err >&2").CombinedOutput(); err != nil || string(both) != "out\nerr\n" {
		t.Errorf("combined output %q, error %v", both, err)
	}
}

// TestDeaf: a command that ignores SIGTERM is killed when the grace is over.
func TestDeaf(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(t, ctx, "trap '' TERM; echo deaf; exec sleep 30")
	cmd.Grace = time.Second
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("%q, %v", line, err)
	}
	began := time.Now()
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took < time.Second || took > 10*time.Second {
		t.Errorf("returned after %v, want the grace and little more", took)
	}
}

// daemon answers at the command's socket, and has one session, whose owner is the stub. Its
// end kills that.
func daemon(t *testing.T, cmd *run.Cmd) (ended chan api.EndRequest) {
	t.Helper()
	ended = make(chan api.EndRequest, 1)
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, doc any) {
		w.Header().Set("Lineage-Api", "1")
		if err := json.NewEncoder(w).Encode(doc); err != nil {
			t.Error(err)
		}
	}
	session := func() api.Session {
		return api.Session{ID: "k3x9q2", Level: 4, Owner: &api.Ref{PID: cmd.Process.Pid}, Started: new(time.Now())}
	}
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { say(w, api.Version{API: api.Major}) })
	mux.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, _ *http.Request) {
		say(w, api.Sessions{Items: []api.Session{{ID: "other1"}, session()}})
	})
	mux.HandleFunc("GET /v1/sessions/k3x9q2", func(w http.ResponseWriter, _ *http.Request) { say(w, session()) })
	mux.HandleFunc("GET /v1/sessions/k3x9q2/report", func(w http.ResponseWriter, _ *http.Request) {
		say(w, api.Report{Session: "k3x9q2", Verdict: api.VerdictLeft})
	})
	mux.HandleFunc("POST /v1/sessions/k3x9q2/end", func(w http.ResponseWriter, r *http.Request) {
		var q api.EndRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		ended <- q
		say(w, session())
		_ = cmd.Process.Kill()
	})
	server := httptest.NewUnstartedServer(mux)
	var err error
	server.Listener, err = net.Listen("unix", cmd.Socket)
	require.NoError(t, err)
	server.Start()
	t.Cleanup(server.Close)
	return ended
}

// TestSession: the daemon ends the session, and has the report of a lineage run that was killed.
func TestSession(t *testing.T) {
	cmd := command(t, t.Context(), "exec sleep 30")
	cmd.Require, cmd.Grace = run.Session, -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ended := daemon(t, cmd)
	require.NoError(t, cmd.Start())
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }() // what the stub leaves
	if s, err := cmd.Session(); err != nil || s.ID != "k3x9q2" || s.Level != 4 || cmd.Guarantee() != run.Session {
		t.Errorf("session %+v, error %v, guarantee %v", s, err, cmd.Guarantee())
	}
	require.NoError(t, cmd.End())
	if q := <-ended; !q.Now {
		t.Errorf("a negative grace asks for %+v", q)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Errorf("wait: %v", err)
	}
	if r := cmd.Report(); r == nil || r.Verdict != api.VerdictLeft {
		t.Errorf("report: %+v", r)
	}
	if s, err := cmd.Session(); err != nil || s.ID != "k3x9q2" {
		t.Errorf("session of the report: %+v, %v", s, err)
	}
}

func TestRequire(t *testing.T) {
	cmd := command(t, t.Context(), "exit 0")
	cmd.Require = run.Session
	var less *run.GuaranteeError
	if err := cmd.Run(); !errors.As(err, &less) || less.Have != run.Subreaper || less.Why == nil {
		t.Errorf("run: %v", err)
	}
	if cmd.Process != nil {
		t.Error("it was started")
	}
}

// TestDeadSocket: the socket of a daemon that was killed is like none: lineage run would start one,
// if it is root.
func TestDeadSocket(t *testing.T) {
	cmd := command(t, t.Context(), "exit 0")
	cmd.Require = run.Session
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: cmd.Socket, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
	want := "connection refused"
	if os.Geteuid() == 0 {
		want = "lineage doctor: no sessions here" // it was asked
	}
	var less *run.GuaranteeError
	if err := cmd.Run(); !errors.As(err, &less) || !strings.Contains(less.Why.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestStartErrors(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	cancelled := run.Command("true")
	cancelled.Cancel = func() error { return nil }
	twice := command(t, t.Context(), "exit 0")
	require.NoError(t, twice.Run())
	without := command(t, t.Context(), "exit 0")
	without.Lineage = "/no/such/lineage"
	for what, tt := range map[string]struct {
		cmd  *run.Cmd
		want string
	}{
		"context is done": {command(t, done, "exit 0"), "context canceled"},
		"not found":       {run.Command("lineage-no-such-program"), "executable file not found"},
		"no lineage":      {without, fmt.Sprint(run.ErrNotInstalled, ": exec: ")},
		"Cancel":          {cancelled, "Cancel is set"},
		"twice":           {twice, "already started"},
	} {
		if err := tt.cmd.Start(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", what, err, tt.want)
		}
	}
	if err := run.Command("true").Wait(); err == nil {
		t.Error("wait without start: no error")
	}
}
