//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/metrics"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/export"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// exporter is what runs: a follower for each sink.
type exporter struct {
	store     *follow.Store
	followers []*follow.Follower
	bus       *bus.Bus // nil: none
	receipts  *follow.Receipts
	metrics   *metrics.Server // nil: none
}

// build makes the sinks that the options ask for, and reads their cursors.
func build(ctx context.Context, o *export.Options, socket string, log zerolog.Logger) (*exporter, error) {
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
		f := &follow.Follower{Sink: s, Store: store, Host: host(), Log: log.With().Str("sink", s.Name()).Logger(), Dial: dial}
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
		if e.metrics, err = metrics.Listen(ctx, o.Metrics, socket, log); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// run follows and serves until ctx is done.
func (e *exporter) run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	for _, f := range e.followers {
		all.Go(func() { f.Run(ctx) })
	}
	if e.metrics != nil {
		all.Go(func() {
			err = e.metrics.Serve(ctx)
			stop() // exit: the service manager restarts the whole program
		})
	}
	var gone error
	if e.bus != nil {
		all.Go(func() { e.receipts.Run(ctx) })
		all.Go(func() {
			defer e.bus.Close()
			gone = e.bus.Wait(ctx)
			stop()
		})
	}
	all.Wait()
	return errors.Join(err, gone, e.store.Close())
}

// host describes this host.
func host() *record.Host {
	h := &record.Host{Arch: runtime.GOARCH, Version: version}
	if b, err := os.ReadFile("/etc/machine-id"); err == nil {
		h.ID = string(bytes.TrimSpace(b))
	}
	if name, err := os.Hostname(); err == nil {
		h.Name = name
	}
	if h.ID == "" {
		h.ID = h.Name
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return h
}
