//go:build linux

package tracer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traces has a workload run a command, and returns what the execs of one program tell of its environment, until the
// session's next exec of /bin/false.
func traces(t *testing.T, w *workload, events func(func(tracer.Event) bool), command, program string) (all []string) {
	t.Helper()
	w.tell(command + "; /bin/false")
	w.until("= ")
	for ev := range events {
		switch {
		case ev.Type != tracer.EventExec:
		case string(ev.Filename) == "/bin/false":
			return all
		case string(ev.Filename) == program:
			all = append(all, string(ev.Traceparent))
		}
	}
	return all
}

// Children that exit at once had a variable in their environment, and each tells it.
func TestTraceOfShortLived(t *testing.T) { onEachSide(t, testTraceOfShortLived) }

func testTraceOfShortLived(t *testing.T, tr *tracer.Tracer) {
	events := collect(t, tr)
	w, _ := member(t, tr, obeys, tracer.SessionSpec{})
	tr.SetTraces(true)
	got := traces(t, w, events, "for i in $(seq 100); do TRACEPARENT="+traceparent+"$i /bin/true; done", "/bin/true")
	right := 0
	for i, trace := range got {
		if trace == fmt.Sprintf("%.63s", fmt.Sprint(traceparent, i+1)) {
			right++
		}
	}
	t.Logf("figure: TRACEPARENT of %d of %d children that exit at once", right, len(got))
	if right < 99 || len(got) != 100 {
		t.Errorf("%d of %d are right: %q", right, len(got), got)
	}
}

// Only the environments of agents' children are read, only while that is wanted, and a variable only as a whole.
func TestTraceOfWhom(t *testing.T) { onEachSide(t, testTraceOfWhom) }

func testTraceOfWhom(t *testing.T, tr *tracer.Tracer) {
	const set, child = "TRACEPARENT=" + traceparent, "env -i %s /bin/true"
	events := collect(t, tr)
	w, _ := member(t, tr, obeys, tracer.SessionSpec{})
	many := func(n int) string { // distinct ones: env(1) would replace those of one name
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "V%d=x ", i)
		}
		return b.String()
	}
	check := func(what, command, want string) {
		t.Helper()
		if got := traces(t, w, events, command, "/bin/true"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	read := func(what, environ, want string) { t.Helper(); check(what, fmt.Sprintf(child, environ), want) }
	read("nobody wants it", set, "")
	tr.SetTraces(true)
	read("alone", set, traceparent)
	read("none", "A=b", "")
	read("empty", "TRACEPARENT=", "")
	read("another name", "XTRACEPARENT=x TRACEPARENTS=x traceparent=x", "")
	read("the last of 256", many(255)+set, traceparent)
	read("behind 256", many(256)+set, "")
	read("behind a long one", "L="+strings.Repeat("x", 3000)+" "+set, traceparent)
	for n := 120; n < 132; n++ { // where one read of a longer variable ends, and the next begins
		read("in a value", "L="+strings.Repeat("x", n)+"TRACEPARENT=no "+set, traceparent)
	}
	read("longer", set+"-"+strings.Repeat("x", 100), (traceparent + "-" + strings.Repeat("x", 100))[:63])
	check("a grandchild", "(export "+set+"; /bin/true; :)", "")
	tr.SetTraces(false)
	read("nobody wants it any more", set, "")
}

// A process that a mark named is an agent too, whatever started it.
func TestTraceOfMarked(t *testing.T) { onEachSide(t, testTraceOfMarked) }

func testTraceOfMarked(t *testing.T, tr *tracer.Tracer) {
	events := collect(t, tr)
	w, _ := member(t, tr, "sh -c '"+obeys+"'; :", tracer.SessionSpec{})
	tr.SetTraces(true)
	w.tell("echo pid $$")
	agent := identify(t, tr, parse(t, strings.Fields(w.until("pid "))[1]))
	for _, want := range []string{"", traceparent} {
		if got := traces(t, w, events, "TRACEPARENT="+traceparent+" /bin/true", "/bin/true"); !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
		require.NoError(t, tr.SetCall(agent, 7, true))
	}
}
