//go:build linux

package bus

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// PresenceTTL is how long a host is there after it has said so last. Tests shorten it.
var PresenceTTL = 90 * time.Second

const presenceAskTime = 5 * time.Second

// Presence says how the host is, often enough for the TTL.
type Presence struct {
	Dial  func(context.Context) (api.Client, error)
	Store func(ctx context.Context, stream string, m *Message) error // of a [Bus]
	Host  string                                                     // its name in subjects
	Log   zerolog.Logger
}

// Run says it until ctx is done.
func (p *Presence) Run(ctx context.Context) {
	var trouble service.Trouble
	for ctx.Err() == nil {
		err := p.tell(ctx)
		if errors.Is(err, ErrDown) || ctx.Err() != nil { // that the bus is away is logged elsewhere
			err = nil
		}
		trouble.Say(p.Log, err, "the presence of the host is not stored", "")
		select {
		case <-time.After(PresenceTTL / 3):
		case <-ctx.Done():
		}
	}
}

func (p *Presence) tell(ctx context.Context) error {
	m := &Message{Subject: service.HostSubject(p.Host), TTL: PresenceTTL}
	if err := m.Encode(p.gather(ctx)); err != nil {
		return err
	}
	return p.Store(ctx, service.HostsStream, m)
}

// gather asks the daemon. Without an answer the host says that.
func (p *Presence) gather(ctx context.Context) *service.LinkedHost {
	h := &service.LinkedHost{Head: api.NewHead("host"), Host: p.Host, Time: time.Now().UTC()}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.Boot = strings.TrimSpace(string(b))
	}
	if err := p.ask(ctx, h); err != nil {
		h.Degraded = append(h.Degraded, "the daemon does not answer: "+err.Error())
	}
	return h
}

func (p *Presence) ask(ctx context.Context, h *service.LinkedHost) error {
	ctx, cancel := context.WithTimeout(ctx, presenceAskTime)
	defer cancel()
	c, err := p.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	h.Version, h.Level, h.Mode, h.Sessions, h.Degraded = v.Version, s.Level, s.Mode, s.Sessions, s.Degraded
	return nil
}
