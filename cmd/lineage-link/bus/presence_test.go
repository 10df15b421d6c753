//go:build linux

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// told is what was stored, and when.
type told struct {
	at    []time.Time
	hosts []service.LinkedHost
}

func (s *told) Store(_ context.Context, stream string, m *Message) error {
	var h service.LinkedHost
	if err := json.Unmarshal(m.Body, &h); err != nil || stream != "KV_LIN_HOSTS" || m.Subject != "$KV.LIN_HOSTS.web1" || m.TTL != 90*time.Second {
		panic(m.Subject)
	}
	s.at, s.hosts = append(s.at, time.Now()), append(s.hosts, h)
	return nil
}

// TestPresence: the host says how it is, three times within the TTL.
func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daemon := &apitest.Client{Has: apitest.Has{
			Version: &api.Version{Version: "1.2"}, Status: &api.Status{Level: 3, Mode: "enforce", Degraded: []string{"history"}, Sessions: 2},
		}}
		s := &told{}
		var away atomic.Bool
		p := &Presence{Store: s.Store, Host: "web1", Log: zerolog.Nop(), Dial: func(context.Context) (api.Client, error) {
			if away.Load() {
				return nil, errors.New("away")
			}
			return daemon, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		go p.Run(ctx)
		time.Sleep(95 * time.Second)
		away.Store(true)
		time.Sleep(30 * time.Second)
		cancel()
		synctest.Wait()
		var at []string
		for _, x := range s.at {
			at = append(at, x.Sub(began).Round(time.Second).String())
		}
		require.Equal(t, strings.Join(at, " "), "0s 30s 1m0s 1m30s 2m0s")
		h := s.hosts[0]
		if h.Host != "web1" || h.Version != "1.2" || h.Level != 3 || h.Mode != "enforce" || h.Sessions != 2 ||
			strings.Join(h.Degraded, "") != "history" ||
			len(h.Boot) != 36 {
			t.Errorf("%+v", h)
		}
		if h := s.hosts[len(s.hosts)-1]; h.Sessions != 0 || !strings.Contains(strings.Join(h.Degraded, ""), "the daemon does not answer: away") {
			t.Errorf("without the daemon: %+v", h)
		}
	})
}
