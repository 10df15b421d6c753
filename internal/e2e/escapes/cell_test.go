//go:build linux

package escapes

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// A failure is what went wrong before a session ends.
type failure string

const (
	rootAlive    failure = "root alive"    // nothing: the end is requested
	rootKilled   failure = "root killed"   // by SIGKILL; run and daemon stay alive
	daemonKilled failure = "daemon killed" // by SIGKILL, then the root; run is stopped
)

var failures = []failure{rootAlive, rootKilled, daemonKilled}

type cell struct {
	level   int // of the daemon, 0: the best of the kernel
	loaded  bool
	failure failure
}

func (c cell) String() string {
	level, load := "best level", "idle"
	if c.level != 0 {
		level = fmt.Sprintf("level %d", c.level)
	}
	if c.loaded {
		load = "busy"
	}
	return fmt.Sprintf("%s, %s, %v", level, load, c.failure)
}

// cells are the conditions to try: without LNGTEST_CELLS=all an idle machine, and each level and
// each failure once.
func cells(t *testing.T) []cell {
	switch s := os.Getenv("LNGTEST_CELLS"); s {
	case "":
		return []cell{{failure: rootAlive}, {level: 3, failure: rootKilled}, {level: 2, failure: daemonKilled}}
	case "all":
	default:
		t.Fatalf("LNGTEST_CELLS=%s: want all, or nothing", s)
	}
	var all []cell
	for _, level := range []int{2, 3, 4} {
		for _, loaded := range []bool{false, true} {
			for _, f := range failures {
				all = append(all, cell{level, loaded, f})
			}
		}
	}
	return all
}

// chosen reports whether to try a row: LNGTEST_ROWS=11,14 tries only those.
func chosen(r *row) bool {
	s := os.Getenv("LNGTEST_ROWS")
	return s == "" || slices.Contains(strings.Split(s, ","), strconv.Itoa(r.number))
}

func TestEscapes(t *testing.T) {
	rounds := stage.FromEnv(t, "LNGTEST_ROUNDS", 4)
	for _, c := range cells(t) {
		t.Run(strings.ReplaceAll(c.String(), ", ", "/"), func(t *testing.T) {
			h := newHost(t, c)
			for i := range rows {
				r := &rows[i]
				if !chosen(r) || r.why != "" {
					continue
				}
				t.Run(fmt.Sprintf("%d_%s", r.number, r.name), func(t *testing.T) {
					n := 1
					if r.racy {
						n = rounds
					}
					for round := range n {
						h.try(t, r)
						if t.Failed() {
							t.Fatalf("%v: round %d of %d", c, round+1, n)
						}
					}
				})
			}
		})
	}
}

// A host is an instance of lineage under the conditions of one cell, with outsiders
// that no end may touch.
type host struct {
	cell
	instance  *stage.Instance
	daemon    *stage.Process
	outsiders []*stage.Bystander
	sessions  int
	reached   int // level
}

func newHost(t *testing.T, c cell) *host {
	h := &host{cell: c, instance: stage.New(t)}
	h.serve(t)
	h.reached = h.instance.Status().Level
	tracertest.NeedsLevel(t, c.level, h.reached)
	if c.loaded {
		burn(t)
	}
	for _, comm := range []string{"lngtest-gone", "sleep"} {
		h.outsiders = append(h.outsiders, stage.NewBystander(h.instance, comm, 0))
	}
	return h
}

// policy shortens the daemon's wait for processes that cannot be killed, but not so
// much that a busy machine looks like one; and it ends delegated work, on evidence that
// no outsider of this suite has.
var policy = fmt.Sprintf(`mode: enforce
wait: {killed: %v}
brokers:
  adopt: [env, socket]
  end: all
  shared:
    - name: lngtest
      match: {exe: /**/lngtest-shared}
`, require.Slowed(4*time.Second))

// serve starts the daemon unless one runs.
func (h *host) serve(t *testing.T) {
	t.Helper()
	if h.daemon != nil && !h.daemon.Exited() {
		return
	}
	i := h.instance.In(t)
	h.daemon = i.Daemon("--level", strconv.Itoa(h.level), "--policy", i.Policy(policy))
}

func (h *host) lose(t *testing.T) {
	t.Helper()
	require.NoError(t, h.daemon.Process.Kill())
	h.daemon.Wait()
}

// burn keeps every CPU busy until the test ends.
func burn(t *testing.T) {
	for cpu := range runtime.NumCPU() {
		cmd := exec.Command(stage.Program("burn"), strconv.Itoa(cpu))
		cmd.Env = append(os.Environ(), "LNGTEST_SECONDS=3600")
		stage.Start(t, cmd)
	}
}
