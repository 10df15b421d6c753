//go:build linux

package main

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// linked is what runs.
type linked struct {
	bus      *bus.Bus
	host     *bus.Host
	presence *bus.Presence
}

// build begins to connect.
func build(o *service.LinkOptions, socket string, log zerolog.Logger) (*linked, error) {
	b, err := bus.Connect(o, version, log)
	if err != nil {
		return nil, service.UsageError{Err: err}
	}
	l := &linked{bus: b, host: bus.NewHost(socket, log), presence: &bus.Presence{
		Dial:  func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) },
		Store: b.Store,
		Host:  o.Name,
		Log:   log,
	}}
	l.host.All = o.Answer
	return l, nil
}

// run serves until ctx is done.
func (l *linked) run(ctx context.Context) error {
	defer l.bus.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := l.host.Serve(ctx, l.bus, l.presence.Host); err != nil {
		return err
	}
	return service.Together(ctx, service.Lasting(l.presence.Run), l.bus.Wait)
}
