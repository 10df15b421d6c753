//go:build linux

package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/ocsf"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOCSF: sessions that launch, daemonise, leak, reach a limit, ask another daemon, and a daemon
// whose policy is wrong and whose breaker opens, through a rotation of the file and an exporter that is
// killed. Every event is valid, no event of the history is missing, and there are all five findings.
func TestOCSF(t *testing.T) {
	i := stage.New(t)
	program := func(of, name string) string { // which only this test uses
		path := filepath.Join(i.Dir, name)
		require.NoError(t, os.Rename(i.Copy(of), path))
		return path
	}
	name := fmt.Sprintf("lngtest-%d", os.Getpid()) // another run of this test may be going on
	agent := program("/bin/sh", name)
	write := func(text string) string { return i.Policy("mode: enforce\nbreaker: {ends_per_minute: 2}\n" + text) }
	rule := fmt.Sprintf("agents:\n  - {name: lngtest-ocsf, enabled: true, match: {comm: %s, exe: %s}, grace: 0s}\n", name, agent)
	daemon := i.Daemon("--policy", write(rule))
	began := time.Now()
	x := ocsfExporter(i)

	// A launch with a secret, an orphan, a leftover that an end kills.
	m := stage.NewMarker(t, i.Dir)
	leak := i.Run(m, []string{"--name", "leak", "--grace", "100ms"}, "daemonise")
	m.Gone()
	leak.Wait()
	i.Start([]string{"run", "--name", "secret", "--", "sh", "-c", "true --token=hunter2hunter2; exit 7"}, nil).Wait()

	i.Start([]string{"run", "--name", "user", "--", "setpriv", "--reuid", "65534", "true"}, nil).Wait()

	// Over a limit, and killed by a signal.
	long := i.Run(m, []string{"--name", "long", "--max-lifetime", "300ms", "--grace", "0s"}, "ignoreterm")
	m.Gone()
	long.Wait()

	// The file is renamed, and the exporter is killed and starts again.
	log := filepath.Join(i.Dir, "ocsf.jsonl")
	require.NoError(t, os.Rename(log, log+".1"))
	x.Process.Signal(syscall.SIGKILL)
	x.Wait()
	x = ocsfExporter(i)

	// A client of a broker that starts nothing.
	i.Start([]string{"run", "--name", "asks", "--", program("/bin/true", "docker"), "run", "--name", "lngtest-none", "image"}, nil).Wait()

	// Leftovers that nothing ends.
	kept := stage.NewMarker(t, i.Dir)
	i.Run(kept, []string{"--name", "left", "--on-exit", "report"}, "daemonise").Wait()
	kept.Ready()

	// A policy that is wrong, and then right again.
	mistaken := func(wrong bool) {
		t.Helper()
		require.NoError(t, daemon.Process.Signal(syscall.SIGHUP))
		i.Until("status of the policy", func() bool { return (len(i.Status().Degraded) > 0) == wrong })
	}
	write("mode: enforce\n")
	mistaken(true)
	i.Until("finding of leftovers that are alive, and of a wrong policy", func() bool { return found(t, log, "leftovers", "left") && found(t, log, "degraded", "") })
	write(rule)
	mistaken(false)

	// Agents with leftovers, which are ended automatically. Each lives until the daemon has checked it.
	for n := 0; !i.Status().Breaker.Open; n++ {
		if err := exec.Command(agent, "-c", "sleep 20 & sleep 1").Run(); err != nil || n == 10 {
			t.Fatalf("the breaker is closed after %d ends (%v)", n, err)
		}
	}
	for _, rule := range []string{"leftovers", "budget", "degraded", "breaker", "delegated"} {
		i.Until("finding of "+rule, func() bool { return found(t, log, rule, "") })
	}
	i.Must("end", "--all", "--yes", "--now")
	kept.Gone()

	want := happened(t, i, began)
	for _, kind := range []string{"forked", "executed", "became", "exited 7", "SIGKILL"} {
		if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, kind) }) {
			t.Errorf("no process %s", kind)
		}
	}
	var have map[string]int
	i.Agrees("events of all that happened", func() error {
		have = written(t, log+".1", log)
		if missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return have[w] > 0 }); len(missing) > 0 {
			return fmt.Errorf("no event of %q", missing)
		}
		return nil
	})
	for what, n := range have {
		if n > 1 || !slices.Contains(want, what) {
			t.Errorf("%d events with different ids of %s", n, what)
		}
	}
	t.Logf("figure: %d launches and exits", len(want))
	if said := x.Err.String(); strings.Contains(said, `"level":"error"`) {
		t.Error(said)
	}
}

func ocsfExporter(i *stage.Instance) *stage.Process {
	state := filepath.Join(i.Dir, "state")
	args := []string{"export", "--ocsf", filepath.Join(i.Dir, "ocsf.jsonl"), "--state", state}
	return follows(i, i.Start(args, nil), filepath.Join(state, "ocsf.cursor"))
}

type event struct {
	Time     int64 `json:"time"`
	Metadata struct {
		UID  string `json:"uid"`
		Code string `json:"event_code"`
	} `json:"metadata"`
	Class   int `json:"class_uid"`
	Actor   struct{ Process struct{ PID int } }
	Process struct {
		PID      int
		Name     string
		User     struct{ UID string }
		Ancestry []struct{ PID int }
	}
	Exit     *int `json:"exit_code"`
	Unmapped struct {
		Lineage struct {
			Session struct{ Name string }
			Signal  string
			Creator struct{ PID int }
		}
	}
}

// describe names a launch or an exit in the same form as happened. Empty: another event.
func (e *event) describe() string {
	switch e.Metadata.Code {
	case "fork":
		return fmt.Sprintf("%d %d forked %d", e.Time, e.Actor.Process.PID, e.Process.PID)
	case "exec":
		return fmt.Sprintf("%d %d executed %s", e.Time, e.Process.PID, e.Process.Name)
	case "setuid":
		return fmt.Sprintf("%d %d became %s", e.Time, e.Process.PID, e.Process.User.UID)
	case "exit":
		code := -1
		if e.Exit != nil {
			code = *e.Exit
		}
		return fmt.Sprintf("%d %d exited %d%s", e.Time, e.Process.PID, code, e.Unmapped.Lineage.Signal)
	}
	return ""
}

// happened reads the history's events independently.
func happened(t *testing.T, i *stage.Instance, since time.Time) (all []string) {
	t.Helper()
	c, err := api.Dial(t.Context(), i.Socket)
	require.NoError(t, err)
	defer c.Close()
	users := make(map[api.Ref]int)
	err = c.Events(t.Context(), api.EventsQuery{Since: since, Until: time.Now()}, func(e *api.Event) error {
		if e.Type == "lost" && e.Where != "history" { // the history begins with the daemon
			t.Errorf("the daemon lost events: %+v", e)
		}
		p := e.Process
		if p == nil || e.Time == nil {
			return nil
		}
		what := fmt.Sprintf("%d ", e.Time.UnixMilli())
		if p.UID != nil {
			if before, known := users[p.Ref]; known && before != *p.UID {
				all = append(all, what+fmt.Sprintf("%d became %d", p.PID, *p.UID))
			}
			users[p.Ref] = *p.UID
		}
		switch e.Type {
		case "fork":
			creator := 0
			if p.Creator != nil {
				creator = p.Creator.PID
			}
			all = append(all, what+fmt.Sprintf("%d forked %d", creator, p.PID))
		case "exec":
			all = append(all, what+fmt.Sprintf("%d executed %s", p.PID, p.Comm))
		case "exit":
			code := -1
			if p.ExitCode != nil {
				code = *p.ExitCode
			}
			all = append(all, what+fmt.Sprintf("%d exited %d%s", p.PID, code, p.Signal))
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

// written reads the files: how many events with different ids each launch and exit has.
func written(t *testing.T, files ...string) map[string]int {
	t.Helper()
	have, seen := make(map[string]int), make(map[string]string)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			e := valid(t, lines.Bytes())
			what := e.describe()
			if old, again := seen[e.Metadata.UID]; again {
				if old != what {
					t.Errorf("%s has the id of %s", what, old)
				}
				continue
			}
			if seen[e.Metadata.UID] = what; what != "" {
				have[what]++
			}
		}
		require.NoError(t, lines.Err())
	}
	return have
}

// valid checks that OCSF allows an event, and that it has no secret.
func valid(t *testing.T, line []byte) *event {
	t.Helper()
	if err := ocsf.Validate(line); err != nil {
		t.Errorf("%v: %s", err, line)
	}
	if bytes.Contains(line, []byte("hunter2")) {
		t.Errorf("a secret: %s", line)
	}
	e := new(event)
	require.NoError(t, json.Unmarshal(line, e))
	return e
}

// found reports whether the file, or the one before its rotation, has a finding of a rule; if
// session is named, one of that session. The last line may still be incomplete.
func found(t *testing.T, log, rule, session string) bool {
	t.Helper()
	for _, file := range []string{log + ".1", log} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			e := new(event)
			if json.Unmarshal(line, e) == nil && e.Class == 2004 && e.Metadata.Code == rule && (session == "" ||
				e.Unmapped.Lineage.Session.Name == session) {
				return true
			}
		}
	}
	return false
}
