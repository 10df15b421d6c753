//go:build linux

package registry

import (
	"context"
	"testing"
)

// runs has a registry run until the test is over.
func runs(t *testing.T, o *Registry) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go o.Run(ctx)
	t.Cleanup(func() { cancel(); <-o.loop.done })
}
