//go:build linux

package export

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestDelivery: every image in the history arrives as a span, with its parent, whatever happens: a receiver that is down, slow or
// refuses, a full disk, and a killed exporter, LNGTEST_SECONDS in all, under some hundred forks a second.
func TestDelivery(t *testing.T) {
	i := stage.NewDaemon(t)
	r := newReceiver(t)
	state := smallDisk(t, filepath.Join(i.Dir, "state"), "8m")
	began := time.Now()
	x := exporter(i, r.addr, "traces", state)
	phase := time.Duration(stage.FromEnv(t, "LNGTEST_SECONDS", 30)) * time.Second / 6
	load := loaded(i, "load", 6*phase)

	time.Sleep(phase)
	r.down()
	time.Sleep(phase)
	r.up(r.addr)
	r.delay.Store(int64(time.Second))
	time.Sleep(phase)
	r.delay.Store(0)
	r.status.Store(http.StatusServiceUnavailable)
	time.Sleep(phase / 2)
	r.status.Store(http.StatusUnauthorized)
	time.Sleep(phase / 2)
	had := len(r.all())
	r.status.Store(0)
	time.Sleep(min(phase, 30*time.Second)) // its pauses have grown long
	i.Until("span after the refusals", func() bool { return len(r.all()) > had })
	fill(t, state)
	time.Sleep(max(phase, 5*time.Second)) // it writes every 2 s
	i.Until("report of the full disk", func() bool { return strings.Contains(x.Err.String(), "cursor cannot be written") })
	x.Process.Signal(syscall.SIGKILL)
	if said := x.Wait().Err.String(); !strings.Contains(said, "cursor cannot be written") ||
		!strings.Contains(said, "does not take records") {
		t.Errorf("what went wrong is not reported: %s", said)
	}
	time.Sleep(phase / 2)
	os.Remove(filepath.Join(state, "ballast"))
	x = exporter(i, r.addr, "traces", state)
	time.Sleep(time.Until(began.Add(6 * phase)))
	load.Wait()
	i.Receipt(i.Record("load").ID)
	compare(t, i, r, began, stage.Patience+phase)
	t.Logf("figure: %d spans, of which some came again, %d times in all; %s of memory",
		len(r.all()), r.repeated, stage.ProcStatus(x.Process.Pid, "VmHWM"))
	if s := i.Status(); s.Lost != 0 {
		t.Errorf("the daemon lost %d events", s.Lost)
	}
}

func exporter(i *stage.Instance, addr, signals, state string) *stage.Process {
	args := []string{"export", "--otlp", "http://" + addr, "--signals", signals, "--state", state}
	return follows(i, i.Start(args, nil), filepath.Join(state, "otlp.cursor"))
}

// follows waits for the cursor of an exporter: from here on nothing is missed.
func follows(i *stage.Instance, x *stage.Process, cursor string) *stage.Process {
	i.T.Helper()
	i.Until("cursor", func() bool {
		_, err := os.Stat(cursor)
		return err == nil || x.Exited()
	})
	if x.Exited() {
		i.T.Fatalf("exporter: %v", x.Wait())
	}
	return x
}

// loaded runs a session that forks and execs for that long.
func loaded(i *stage.Instance, name string, d time.Duration) *stage.Process {
	i.T.Helper()
	script := fmt.Sprintf(`end=$(($(date +%%s)+%d)); while [ $(date +%%s) -lt $end ]; do
		printf 'exec 100 1000\nfork 100 1000\nvfork 50 1000\n' | "$1" >/dev/null; done`, int(d.Seconds()))
	return i.Start([]string{"run", "--name", name, "--grace", "0s", "--", "sh", "-c", script, "sh", stage.Program("pulse")}, []string{"LNGTEST_SECONDS=60"})
}

// smallDisk is a file system that a test can fill.
func smallDisk(t *testing.T, path, size string) string {
	t.Helper()
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, unix.Mount("lngtest", path, "tmpfs", 0, "size="+size))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(path, unix.MNT_DETACH))
	})
	return path
}

func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
}

// compare waits until the receiver has a span for everything in the history, for at most the given time.
func compare(t *testing.T, i *stage.Instance, r *receiver, since time.Time, most time.Duration) {
	t.Helper()
	var missing, other []string
	for deadline := time.Now().Add(most); ; <-time.After(200 * time.Millisecond) {
		want := images(t, i, since)
		missing, other = difference(want, r)
		if len(missing)+len(other) == 0 && len(r.orphans()) == 0 {
			t.Logf("figure: %d images and sessions in the history", len(want))
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d spans are missing: %.800q", len(missing), missing)
			t.Errorf("%d spans are of nothing in the history: %.800q", len(other), other)
			t.Errorf("spans without their parent: %.800q", r.orphans())
			break
		}
	}
	if len(r.changed) > 0 {
		t.Errorf("%d spans came again and were different: %.800q", len(r.changed), r.changed)
	}
}

func difference(want []string, r *receiver) (missing, other []string) {
	left := make(map[string]int)
	for _, w := range want {
		left[w]++
	}
	for _, s := range r.all() {
		if !moment(s.Name) {
			left[describe(s)]--
		}
	}
	for text, n := range left {
		switch {
		case n > 0:
			missing = append(missing, text)
		case n < 0:
			other = append(other, text)
		}
	}
	slices.Sort(missing)
	slices.Sort(other)
	return missing, other
}

// moment reports whether a span is of something that happened to a process or a session that went on.
func moment(name string) bool {
	return strings.HasPrefix(name, "lineage.") && name != "lineage.session"
}

// images reads the history, and describes what has ended in the same form as describe.
func images(t *testing.T, i *stage.Instance, since time.Time) (want []string) {
	t.Helper()
	c, err := api.Dial(t.Context(), i.Socket)
	require.NoError(t, err)
	defer c.Close()
	add := func(p, ran *api.Process, end string) {
		name := ran.Comm
		if ran.Exe != "" {
			name = path.Base(ran.Exe)
		}
		want = append(want, fmt.Sprintf("%s %d %d %s", name, p.PID, p.StartNS, end))
	}
	err = c.Events(t.Context(), api.EventsQuery{Since: since, Until: time.Now()}, func(e *api.Event) error {
		p := e.Process
		switch e.Type {
		case "exec":
			if e.Was != nil && e.SinceNS != 0 {
				add(p, e.Was, "  true STATUS_CODE_UNSET")
			}
		case "exit":
			switch {
			case p.Signal != "":
				add(p, p, " "+p.Signal+"  STATUS_CODE_ERROR")
			case p.ExitCode != nil && *p.ExitCode != 0:
				add(p, p, fmt.Sprintf("%[1]d %[1]d  STATUS_CODE_ERROR", *p.ExitCode))
			default:
				add(p, p, "0   STATUS_CODE_UNSET")
			}
		case "session":
			if e.State == api.StateEnded {
				root := i.Record(e.Session).Root
				want = append(want, fmt.Sprintf("lineage.session %d     STATUS_CODE_UNSET", root.PID))
			}
		case "lost":
			t.Logf("the history lacks %d events (%s)", e.Count, e.Where)
		}
		return nil
	})
	require.NoError(t, err)
	return want
}
