//go:build linux

package daemon

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/watch"
)

const maxHz = 10

// getWatch streams the picture, and then what changes in it.
func (s *server) getWatch(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "session", "hz")
	if err != nil {
		return err
	}
	hz := maxHz
	if text := q.Get("hz"); text != "" {
		if hz, err = strconv.Atoi(text); err != nil || hz < 1 || hz > maxHz {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("hz %q: want 1 to %d", text, maxHz), "")
		}
	}
	return s.feed.Serve(r.Context(), w, c, watch.Request{Session: q.Get("session"), Interval: time.Second / time.Duration(hz)})
}

// watchStatus is what a status line shows.
func (s *server) watchStatus(v registry.View) api.WatchStatus {
	return api.WatchStatus{
		Level: s.kernel.Features().Level, Mode: s.rules.Mode(), Degraded: s.degradations(v), Lost: v.Lost(), Forks: v.Forks(),
		Live: v.Graph().Stats().Live, Breaker: s.rules.BreakerState(),
		SelfCheck: s.selfCheck.Result(),
	}
}
