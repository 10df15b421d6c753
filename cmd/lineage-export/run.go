//go:build linux

package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/cmd/lineage/export"
)

// exporter is what runs: a follower for each sink.
type exporter struct {
	store     *follow.Store
	followers []*follow.Follower
	log       *slog.Logger
}

// build makes the sinks that the options ask for, and reads their cursors.
func build(o *export.Options, socket string, log *slog.Logger) (*exporter, error) {
	sinks, err := sinksOf(o, log)
	if err != nil {
		return nil, usageError{err}
	}
	store, err := follow.OpenStore(o.State)
	if err != nil {
		return nil, err
	}
	if o.State == "" && len(sinks) > 0 {
		log.Warn("no state directory: each start begins with what happens then")
	}
	e := &exporter{store: store, log: log}
	for _, s := range sinks {
		f := &follow.Follower{
			Sink: s, Store: store, Host: host(), Log: log.With("sink", s.Name()),
			Dial: func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) },
		}
		if err := f.Open(); err != nil {
			return nil, usageError{err}
		}
		e.followers = append(e.followers, f)
	}
	return e, nil
}

// run follows until ctx is done.
func (e *exporter) run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, f := range e.followers {
		all.Go(func() { f.Run(ctx) })
	}
	all.Wait()
	return e.store.Close()
}

// host is where the events happen.
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
