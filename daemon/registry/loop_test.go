//go:build linux

package registry

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// runs has a registry run until the test is over.
func runs(t *testing.T, o *Registry) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go o.Run(ctx)
	t.Cleanup(func() { cancel(); <-o.loop.done })
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
