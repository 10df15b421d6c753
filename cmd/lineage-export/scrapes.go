//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/metrics"
)

// scrapes are what --metrics serves.
type scrapes struct {
	server *metrics.Server
	ln     net.Listener
}

// listen binds the address, and asks the daemon whether it lets this user read its metrics.
// A daemon that does not run may come later.
func listen(ctx context.Context, address, socket string, log zerolog.Logger) (*scrapes, error) {
	s := &scrapes{server: metrics.New(socket)}
	if err := s.server.Check(ctx); errors.As(err, new(*api.UnreachableError)) {
		log.Warn().Err(err).Msg("the metrics cannot be read yet")
	} else if err != nil {
		return nil, err
	}
	var err error
	if s.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	log.Info().Str("address", s.ln.Addr().String()).Msg("serving metrics")
	return s, nil
}
