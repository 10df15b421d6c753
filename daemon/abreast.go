//go:build linux

package daemon

import (
	"context"
	"net/http"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// abreastWait is how long a request waits for the reader of the events. One
// that is behind by more is in a storm, and the answer is what is known.
const abreastWait = 100 * time.Millisecond

// abreast answers by all that the kernel had told when the request came: a
// process that the caller has just started is in the answer.
func (s *server) abreast(rt route) route {
	return route{rt.verbs, func(w http.ResponseWriter, r *http.Request, c access.Caller) error {
		ctx, cancel := context.WithTimeout(r.Context(), abreastWait)
		s.registry.CatchUp(ctx)
		cancel()
		return rt.answer(w, r, c)
	}}
}
