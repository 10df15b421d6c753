//go:build linux

package tracer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// TestGuardSpares: a session's root, and what a mark names as an agent, are spared from the other
// members and from sessions inside, and from nobody else.
func TestGuardSpares(t *testing.T) { onEachSide(t, testGuardSpares) }

func testGuardSpares(t *testing.T, tr *tracer.Tracer) {
	require.Equal(t, tr.Features().RefusesSignals, tr.Features().Refuses) // what this kernel runs, it loads
	for _, spare := range []tracer.Spare{tracer.SpareRecord, tracer.SpareRefuse} {
		t.Run(fmt.Sprint(spare), func(t *testing.T) {
			c := &crossings{t, tr, spare == tracer.SpareRefuse && tr.Features().RefusesSignals != tracer.RefuserNone}
			const script = `trap : TERM USR1; sh -c 'trap : TERM; ` + obeys + `'; while :; do read x; done`
			w, id := member(t, tr, script, tracer.SessionSpec{Protection: tracer.Protection{Spare: spare}})
			info, err := tr.Session(id)
			require.NoError(t, err)
			require.Equal(t, info.Spare, spare)
			w.tell("echo pid $$")
			inner := parse(t, strings.Fields(w.until("pid "))[1])
			w.until("= ")
			root := w.pid()
			toRoot := fmt.Sprintf("kill -TERM %d", root)
			c.after("its root", w, toRoot, true)
			c.after("a signal that the root handles", w, fmt.Sprintf("kill -USR1 %d", root), false)
			c.after("a stop", w, fmt.Sprintf("kill -STOP %d", root), true)
			require.NoError(t, unix.Kill(int(root), unix.SIGCONT)) // by an outsider, as the next one
			require.NoError(t, unix.Kill(int(root), unix.SIGTERM))
			c.after("a process that is not spared", w, "sleep 100 & kill -KILL $!", false)
			c.after("an outsider", w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), false)
			c.after("its parent, no agent yet", w, `sh -c 'kill -TERM $PPID'`, false)

			hold := fifo(t)
			w.tell(fmt.Sprintf("(read go <%s; %s) & echo pid $!", hold, toRoot))
			child := parse(t, strings.Fields(w.until("pid "))[1])
			w.until("= ")
			nested, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: child}, KeepOnRootExit: true, Protection: tracer.Protection{Spare: spare}})
			require.NoError(t, err)
			inSession(t, tr, child, nested)
			c.after("from the root of a session inside", w, fmt.Sprintf("echo >%s; wait %d", hold, child), true)

			require.NoError(t, tr.SetCall(identify(t, tr, inner), 7, true))
			c.after("an agent", w, `sh -c 'kill -TERM $PPID'`, true)
			c.after("from an agent, to the root", w, toRoot, false)
			c.after("from an agent, to itself", w, "kill -TERM $$", false)

			require.NoError(t, tr.SetTerms(id, tracer.SessionSpec{KeepOnRootExit: true}))
			c.after("a session that spares nobody", w, `sh -c 'kill -TERM $PPID'`, false)
		})
	}
}

// TestGuardSparesFromAll: kill -9 -1 reaches all but the agent, and says nothing, as it has reached some. In a
// PID namespace of its own: all is what is in there.
func TestGuardSparesFromAll(t *testing.T) { onEachSide(t, testGuardSparesFromAll) }

func testGuardSparesFromAll(t *testing.T, tr *tracer.Tracer) {
	for range tracertest.FromEnv(t, "LNGTEST_ROUNDS", 1) {
		spareFromAll(t, tr)
	}
}

func spareFromAll(t *testing.T, tr *tracer.Tracer) {
	refuses := tr.Features().RefusesSignals != tracer.RefuserNone
	const agent = `sh -c "while read c; do eval \"\$c\"; echo = \$?; done; true"; echo gone`
	w, id := member(t, tr, `exec unshare --pid --fork --kill-child sh -c '`+agent+`; read x'`,
		tracer.SessionSpec{Protection: tracer.Protection{Spare: tracer.SpareRefuse}})
	w.tell("stat -Lc %i /proc/self/ns/pid; sleep 100 & true")
	inside := w.line()
	w.until("= ")
	var outside unix.Stat_t
	require.NoError(t, unix.Stat("/proc/self/ns/pid", &outside))
	if inside == "" || inside == fmt.Sprint(outside.Ino) {
		t.Fatalf("%q is our own PID namespace", inside)
	}
	// By PID in its namespace: its init is 1, the agent 2.
	var spared, other tracer.Identity
	for _, p := range members(t, tr, id) {
		switch {
		case p.NSPID == 2 && p.PID != 2:
			spared = p.Identity
		case p.Comm.String() == "sleep":
			other = p.Identity
		}
	}
	require.NoError(t, tr.SetCall(spared, 7, true))
	before := counter(t, tr, "signals_outside") + counter(t, tr, "signals_refused")
	w.tell(`test "$(stat -Lc %i /proc/self/ns/pid)" = "` + inside + `" && sh -c "kill -9 -1"`)
	require.Equal(t, w.line(), map[bool]string{true: "= 0", false: "gone"}[refuses])
	until(t, "the other one dies", func() bool { return !running(t, tr, other.PID) })
	require.Equal(t, running(t, tr, spared.PID), refuses)
	require.Equal(t, counter(t, tr, "signals_outside")+counter(t, tr, "signals_refused"), before+1)
}
