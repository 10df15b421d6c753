//go:build linux

package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func runs(t *testing.T, o *Registry) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go o.Run(ctx)
	t.Cleanup(func() { cancel(); <-o.loop.done })
}

func nested(call func() error) (what string) {
	defer func() {
		if r := recover(); r != nil {
			what = fmt.Sprint(r)
		}
	}()
	return fmt.Sprint(call())
}

// TestNestedCalls: they fail at once, because a caller in the registry's goroutine
// would wait for itself.
func TestNestedCalls(t *testing.T) { synctest.Test(t, testNestedCalls) }

func testNestedCalls(t *testing.T) {
	o, k := newRegistry(t)
	calls := map[string]func() error{
		"Read":     func() error { return o.Read(func(View) {}) },
		"ReadLast": func() error { return o.ReadLast(func(View) {}) },
		"Update":   func() error { return o.Update(func(Tx) {}) },
		"deep":     func() error { return deep(200, func() error { return o.Read(func(View) {}) }) },
	}
	got := make(map[string]string)
	try := func(where string) {
		for name, call := range calls {
			got[where+" "+name] = nested(call)
		}
	}
	o.Attach(&Hooks{
		Opened: func(View, *Session) { try("Opened") },
		Execed: func(View, *Session, *tracer.Event) { try("Execed") },
	})
	runs(t, o)
	require.NoError(t, o.Read(func(View) { try("Read") }))
	k.Add(100, 1, "lngtest-root")
	if err := o.Update(func(tx Tx) {
		s, err := tx.Create(tracer.SessionSpec{Root: k.Proc(100).Identity})
		if err != nil {
			t.Error(err)
			return
		}
		tx.Apply([]tracer.Event{{Type: tracer.EventExec, Time: 1, Process: s.info.Root, Session: s.info.ID}})
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3*len(calls) {
		t.Errorf("%d calls: %v", len(got), got)
	}
	for where, what := range got {
		if !strings.HasPrefix(what, "registry: Read or Update inside") {
			t.Errorf("%s: %s", where, what)
		}
	}
	// Other goroutines wait for a registry that is busy.
	held, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = o.Read(func(View) { close(held); <-free }) })
	<-held
	wg.Go(func() {
		if err := o.Update(func(Tx) {}); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait() // until the update waits, too
	close(free)
	wg.Wait()
}

//go:noinline
func deep(n int, call func() error) error {
	if n == 0 {
		return call()
	}
	return deep(n-1, call)
}

// TestReadersWait: changes, and callers that cannot wait, come before all readers.
func TestReadersWait(t *testing.T) { synctest.Test(t, testReadersWait) }

func testReadersWait(t *testing.T) {
	o, _ := newRegistry(t)
	runs(t, o)
	held, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = o.Read(func(View) { close(held); <-free }) })
	<-held
	const readers = 200
	var order []string // of the registry's goroutine
	ask := func(who string, ask func(func(View)) error) {
		wg.Go(func() {
			if err := ask(func(View) { order = append(order, who) }); err != nil {
				t.Error(err)
			}
		})
	}
	for range readers {
		ask("reads last", o.ReadLast)
	}
	synctest.Wait()
	ask("reads", o.Read)
	ask("updates", func(f func(View)) error { return o.Update(func(tx Tx) { f(tx.View) }) })
	synctest.Wait()
	close(free)
	wg.Wait()
	for _, who := range []string{"reads", "updates"} {
		if at := slices.Index(order, who); at > 3 {
			t.Errorf("%s as number %d of %d", who, at, len(order))
		}
	}
}
