//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// act is what a process of a session did, or the end of the session. Times are those of CLOCK_MONOTONIC.
type act struct {
	host    int
	kind    kind
	started int // verdict: members that the receipt counts
}

type kind int

const (
	birth   kind = iota // a fork: from the call to when it returned, or its child ran
	attempt             // a fork whose creator was killed before, and which had a child or not
	life                // a member ran
	verdict             // clean: from the command to the time from which on no member lived
)

// told is what is known of a session at one moment.
type told struct {
	births int
	clean  bool
}

// ends says which histories a session may have: what members do is before the verdict, which counts all that
// were born.
var ends = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		hosts := map[int][]porcupine.Operation{}
		for _, op := range all {
			host := op.Input.(act).host
			hosts[host] = append(hosts[host], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range hosts {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return told{} },
	Step: func(state, input, _ any) (bool, any) {
		s, a := state.(told), input.(act)
		switch {
		case s.clean:
			return false, s
		case a.kind == birth:
			s.births++
		case a.kind == verdict:
			s.clean = true
			return a.started >= s.births, s
		}
		return true, s
	},
}

// never is the return of a call whose process was killed before.
const never = math.MaxInt64

func op(host int, k kind, from, to int64, started int) porcupine.Operation {
	return porcupine.Operation{ClientId: host, Input: act{host, k, started}, Call: from, Return: to}
}

// TestEnds: the model refuses what must not happen.
func TestEnds(t *testing.T) {
	clean := func(from, to int64, started int) porcupine.Operation { return op(0, verdict, from, to, started) }
	born := func(from, to int64) porcupine.Operation { return op(0, birth, from, to, 0) }
	tried := func(from int64) porcupine.Operation { return op(0, attempt, from, never, 0) }
	lives := func(from, to int64) porcupine.Operation { return op(0, life, from, to, 0) }
	for name, c := range map[string]struct {
		legal bool
		ops   []porcupine.Operation
	}{
		"births before":                {true, []porcupine.Operation{born(1, 2), lives(2, 3), born(2, 4), clean(5, 6, 2)}},
		"births while it is ended":     {true, []porcupine.Operation{born(1, 9), lives(6, 7), clean(5, 10, 1)}},
		"a fork that never returned":   {true, []porcupine.Operation{born(1, 2), tried(6), clean(5, 10, 1)}},
		"more members than are known":  {true, []porcupine.Operation{born(1, 2), clean(5, 6, 7)}},
		"born later":                   {false, []porcupine.Operation{born(1, 2), clean(5, 6, 2), born(7, 8)}},
		"a fork that was called later": {false, []porcupine.Operation{clean(5, 6, 2), tried(7)}},
		"in flight, and lived later":   {false, []porcupine.Operation{born(1, 9), clean(5, 6, 1), lives(7, 8)}},
		"lived later":                  {false, []porcupine.Operation{born(1, 2), lives(3, 4), clean(5, 6, 1), lives(8, 9)}},
		"not counted":                  {false, []porcupine.Operation{born(1, 2), born(1, 3), clean(5, 6, 1)}},
		"another host":                 {true, []porcupine.Operation{clean(5, 6, 0), op(1, birth, 7, 8, 0), op(1, verdict, 5, 9, 1)}},
		"one of two hosts":             {false, []porcupine.Operation{clean(5, 6, 0), op(1, birth, 7, 8, 0), op(1, verdict, 5, 6, 1)}},
	} {
		if legal := porcupine.CheckOperations(ends, c.ops); legal != c.legal {
			t.Errorf("%s: %v", name, legal)
		}
	}
}

// book is where the births of a storm are noted, by the processes themselves.
type book struct {
	t    *testing.T
	path string
}

const (
	bookBirths = 16_384
	birthBytes = 32
)

func newBook(t *testing.T, dir string) *book {
	t.Helper()
	b := &book{t, filepath.Join(dir, "births")}
	require.NoError(t, os.WriteFile(b.path, make([]byte, (1+bookBirths)*birthBytes), 0o600))
	return b
}

// operations are the births of a host's session and the lives of their children, once none of them is alive.
func (b *book) operations(host int) (ops []porcupine.Operation, open int) {
	b.t.Helper()
	text := require.ReadFile(b.t, b.path)
	n := int(binary.NativeEndian.Uint64(text))
	if n > bookBirths {
		b.t.Fatalf("%d births, more than the book has room for", n)
	}
	for i := 1; i <= n; i++ {
		var at [birthBytes / 8]int64 // called, returned, ran, still
		for k := range at {
			at[k] = int64(binary.NativeEndian.Uint64(text[i*birthBytes+8*k:]))
		}
		called, returned, ran, still := at[0], at[1], at[2], at[3]
		if called == 0 || returned < 0 { // killed before the call; refused
			continue
		}
		if still == 0 {
			still = ran
		}
		if returned == 0 || ran > 0 && ran < returned {
			returned = ran
		}
		if returned == 0 {
			ops, open = append(ops, op(host, attempt, called, never, 0)), open+1
			continue
		}
		ops = append(ops, op(host, birth, called, returned, 0))
		if ran > 0 {
			ops = append(ops, op(host, life, ran, still, 0))
		}
	}
	return ops, open
}

// monotonic is a time as the processes note it.
func monotonic(t *testing.T, at time.Time) int64 {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano() - int64(time.Since(at.Round(0)))
}

// TestFleetStorm: one end reaches the storms of three hosts, which fork up to 5,000 times a second in all. When the
// verdicts come, no process of the sessions lives, and none was born, or lived, after the time that its host's receipt
// says.
func TestFleetStorm(t *testing.T) {
	f := newFleet(t, true)
	var markers []*stage.Marker
	var books []*book
	for _, h := range f.hosts {
		m, b := stage.NewMarker(t, t.TempDir()), newBook(t, t.TempDir())
		h.Run(m, []string{"--name", "storm", "--grace", "0s"}, "births", b.path, "1667", "30", "8")
		markers, books = append(markers, m), append(books, b)
		h.Until("storm", func() bool { return h.Lineage("tree", "storm").Code() == 0 && h.Session("storm").Forks > 100 })
	}
	began := time.Now()
	all := f.answers(api.ExitOK, "end", "storm", "--sign", f.key, "--reason", "case 7", "--yes", "-H", "web1,web2,web3")
	over := time.Now()
	var history []porcupine.Operation
	for n, a := range all {
		markers[n].MustBeGone()
		var d api.CommandReply
		require.NoError(t, json.Unmarshal(a.Document, &d))
		reports := receipt(t, &d).Reports
		if len(reports) != 1 || reports[0].Verdict != api.VerdictClean || reports[0].Ended == nil {
			t.Fatalf("%s: %+v", a.Host, reports)
		}
		r := &reports[0]
		t.Logf("figure: %s has ended after %v, and the verdicts of all were here %v later", a.Host,
			r.Ended.Sub(began).Round(time.Millisecond), over.Sub(*r.Ended).Round(time.Millisecond))
		ops, open := books[n].operations(n)
		last := int64(0)
		for _, op := range ops {
			last = max(last, op.Call)
		}
		sent, ended := monotonic(t, began), monotonic(t, *r.Ended)
		t.Logf("figure: %s: %d operations, %d births without a return, the last one began %v before the end of the session; the receipt counts %d members",
			a.Host, len(ops), open, time.Duration(ended-last), r.Started)
		history = append(append(history, ops...), op(n, verdict, sent, ended, r.Started))
	}
	began = time.Now()
	if !porcupine.CheckOperations(ends, history) {
		t.Error("a member was born, or lived, after the verdict, or was not counted")
	}
	t.Logf("figure: %d operations checked in %v", len(history), time.Since(began).Round(time.Millisecond))
	// The check sees what it is for.
	for n := range all {
		late := monotonic(t, over)
		if porcupine.CheckOperations(ends, append(history[:len(history):len(history)], op(n, birth, late, late+1, 0))) {
			t.Errorf("host %d: a birth after the verdict is not noticed", n)
		}
	}
}
