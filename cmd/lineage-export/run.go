//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// exporter is what runs: a follower for each sink.
type exporter struct {
	store     *follow.Store
	followers []*follow.Follower
	bus       *bus.Bus // nil: none
	receipts  *follow.Receipts
	metrics   *service.Metrics // nil: none
}

// build makes the sinks that the options ask for, and reads their cursors.
func build(ctx context.Context, o *service.ExportOptions, socket string,
	log zerolog.Logger) (*exporter, error) {
	sinks, err := sinksOf(o, log)
	if err != nil {
		return nil, service.UsageError{Err: err}
	}
	store, err := follow.OpenStore(o.State)
	if err != nil {
		return nil, err
	}
	if o.State == "" && len(sinks) > 0 {
		log.Warn().Msg("no --state: after a restart, events in between are not sent")
	}
	e := &exporter{store: store}
	dial := func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) }
	for _, s := range sinks {
		f := &follow.Follower{Sink: s, Store: store, Host: host(),
			Log: log.With().Str("sink", s.Name()).Logger(), Dial: dial}
		if err := f.Open(); err != nil {
			return nil, service.UsageError{Err: err}
		}
		e.followers = append(e.followers, f)
	}
	if o.NATS != "" {
		log := log.With().Str("sink", "nats").Logger()
		e.receipts = &follow.Receipts{Store: store, Dial: dial, Log: log}
		if e.bus, e.receipts.Host, err = servers(o, log); err != nil {
			return nil, service.UsageError{Err: fmt.Errorf("--nats: %w", err)}
		}
		e.receipts.Stream = e.bus
		if err := e.receipts.Open(); err != nil {
			return nil, service.UsageError{Err: err}
		}
	}
	if o.Metrics != "" {
		if e.metrics, err = listenMetrics(ctx, o.Metrics, socket, log); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// run follows and serves until ctx is done.
func (e *exporter) run(ctx context.Context) error {
	var parts []func(context.Context) error
	for _, f := range e.followers {
		parts = append(parts, service.Lasting(f.Run))
	}
	if e.metrics != nil {
		parts = append(parts, e.metrics.Serve)
	}
	if e.bus != nil {
		defer e.bus.Close()
		parts = append(parts, service.Lasting(e.receipts.Run), e.bus.Wait)
	}
	return errors.Join(service.Together(ctx, parts...), e.store.Close())
}

func host() *follow.Host {
	h := &follow.Host{Arch: runtime.GOARCH, Version: version}
	if b, err := os.ReadFile("/etc/machine-id"); err == nil {
		h.ID = string(bytes.TrimSpace(b))
	}
	if name, err := os.Hostname(); err == nil {
		h.Name = name
	}
	h.ID = cmp.Or(h.ID, h.Name)
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return h
}
