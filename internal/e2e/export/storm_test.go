//go:build linux

package export

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// mostMemory is the most memory that the exporter may use in a storm.
const mostMemory = 64 << 10 // KiB

// TestStorm: 20,000 forks a second, LNGTEST_STORM seconds. Everything in the history arrives,
// the rest is one "lost"; the daemon loses nothing.
func TestStorm(t *testing.T) {
	onDemand(t)
	i := stage.NewDaemon(t)
	r := newReceiver(t)
	r.counting = true
	x := exporter(i, r.addr, "traces,logs", t.TempDir())
	began := time.Now()
	seconds := stage.FromEnv(t, "LNGTEST_STORM", 21)
	m := stage.NewMarker(t, i.Dir)
	// The program stays until its deadline.
	storm := i.Start([]string{"run", "--name", "storm", "--grace", "0s", "--", "timeout", "-s", "KILL", strconv.Itoa(seconds + 1),
		stage.Program("vforkstorm"), "20000", strconv.Itoa(seconds)}, m.Env())
	time.Sleep(time.Duration(seconds) * time.Second)
	storm.Wait()
	took := time.Since(began)
	id := i.Record("storm").ID
	i.Receipt(id)

	forks, lost := history(t, i, began)
	for deadline := time.Now().Add(10 * time.Duration(seconds) * time.Second).Add(stage.Patience); r.has("lineage.session") == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the end of the session has not arrived; %d spans have", r.count())
		}
	}
	behind := time.Since(began) - took
	memory, _ := strconv.Atoi(strings.TrimSuffix(peak(t, x), " kB"))
	t.Logf("figure: %d forks in %.1f s, %.0f/s; %d images arrived, %d requests repeated; all had arrived %.1f s after the end; %d KiB; the history lacks %d events",
		forks, took.Seconds(), float64(forks)/took.Seconds(), r.count()-1, r.repeated, behind.Seconds(), memory, lost)
	if r.count()-1 < forks {
		t.Errorf("%d of %d processes arrived", r.count()-1, forks)
	}
	if memory == 0 || memory > mostMemory {
		t.Errorf("the exporter took %d KiB", memory)
	}
	if s := i.Status(); s.Lost != 0 {
		t.Errorf("the daemon lost %d events", s.Lost)
	}
}

// history counts the exits that the history has, and the events that it lacks.
func history(t *testing.T, i *stage.Instance, since time.Time) (forks int, lost uint64) {
	t.Helper()
	c, err := api.Dial(t.Context(), i.Socket)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Events(t.Context(), api.EventsQuery{Since: since, Until: time.Now(), Types: []api.EventType{"exit", "lost"}}, func(e *api.Event) error {
		switch e.Type {
		case "exit":
			forks++
		case "lost":
			lost += e.Count
		}
		return nil
	}))
	return forks, lost
}
