//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer"
)

const pins = "/sys/fs/bpf/lngtest-bench"

// tracepoints of the hooks, by the names of their empty programs, which are attached after the hooks. first_signal is
// attached before: it pays for what is cold.
var tracepoints = map[string]string{
	"none_fork":   "sched_process_fork",
	"none_exec":   "sched_process_exec",
	"none_exit":   "sched_process_exit",
	"none_free":   "sched_process_free",
	"none_signal": "signal_generate",
}

const firstSignal = "first_signal"

// counting adds one to the number that a hash has for an event.
func counting(numbers *ebpf.Map, event int) asm.Instructions {
	const key = -4
	return asm.Instructions{
		asm.StoreImm(asm.R10, key, int64(event), asm.Word),
		asm.LoadMapPtr(asm.R1, numbers.FD()),
		asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "unknown"),
		asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("unknown"),
	}
}

// A kernel is a kernel side of our own with BPF statistics, whose own cost an empty program on each tracepoint shows.
type kernel struct {
	*tracer.Tracer
	read    chan error
	empty   map[string]*ebpf.Program
	closers []io.Closer
}

// trace loads the programs.
func trace() (_ *kernel, err error) {
	k := &kernel{read: make(chan error, 1), empty: map[string]*ebpf.Program{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, err
	}
	k.closers = append(k.closers, stats)
	if err := k.attach(firstSignal, tracepoints["none_signal"], nil); err != nil {
		return nil, err
	}
	if k.Tracer, err = tracer.Open(tracer.Options{Dir: pins}); err != nil {
		return nil, err
	}
	go func() {
		var ev tracer.Event
		for {
			if err := k.Read(&ev); err != nil {
				k.read <- err
				return
			}
		}
	}()
	for name, tracepoint := range tracepoints {
		if err := k.attach(name, tracepoint, nil); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// count attaches a program that only counts to each hook of a process's life.
func (k *kernel) count() error {
	numbers, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 16})
	if err != nil {
		return err
	}
	k.closers = append(k.closers, numbers)
	for i, e := range events {
		err = errors.Join(err, numbers.Put(uint32(i), uint64(0)),
			k.attach("count_"+e.name, tracepoints[e.empty], counting(numbers, i)))
	}
	return err
}

// attach attaches a program of our own that does this.
func (k *kernel) attach(name, tracepoint string, does asm.Instructions) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint, License: "GPL",
		Instructions: append(does, asm.Mov.Imm(asm.R0, 0), asm.Return()),
	})
	if err != nil {
		return err
	}
	k.empty[name], k.closers = p, append(k.closers, p)
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err == nil {
		k.closers = append(k.closers, l)
	}
	return err
}

// close unloads the kernel side.
func (k *kernel) close() error {
	var errs []error
	for _, c := range slices.Backward(k.closers) {
		errs = append(errs, c.Close())
	}
	if k.Tracer == nil {
		return errors.Join(errs...)
	}
	errs = append(errs, k.Close())
	if read := <-k.read; !errors.Is(read, os.ErrClosed) {
		errs = append(errs, read)
	}
	return errors.Join(append(errs, tracer.Unload(pins))...)
}

// session makes the worker the root of a session.
func (k *kernel) session(w *worker) (tracer.SessionID, error) {
	return k.Create(tracer.SessionSpec{Root: tracer.Identity{PID: uint32(w.pid())}})
}

// release waits until the session is empty and releases it.
func (k *kernel) release(id tracer.SessionID) error {
	if err := until(context.Background(), "empty session", func() error {
		s, err := k.Settle(id)
		if err == nil && s.State != tracer.StateEmpty {
			err = fmt.Errorf("session %v is %v", id, s.State)
		}
		return err
	}); err != nil {
		return err
	}
	return k.Release(id)
}

// runs is what the kernel counted for each program: its runs and their time.
func (k *kernel) runs() (map[string]*ebpf.ProgramStats, error) {
	all, err := k.Stats()
	if err != nil {
		return nil, err
	}
	for name, p := range k.empty {
		if all[name], err = p.Stats(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// during samples the mean ns of a run of each program while a team did something at once, and returns them.
func (k *kernel) during(r *report, name string, team []*worker, kind string,
	l load) (map[string]float64, error) {
	before, err := k.runs()
	if err != nil {
		return nil, err
	}
	done := make(chan error, len(team))
	for _, w := range team {
		go func() { done <- w.do(kind, l.count, l.pause) }()
	}
	for range team {
		err = errors.Join(err, <-done)
	}
	if err != nil {
		return nil, err
	}
	after, err := k.runs()
	if err != nil {
		return nil, err
	}
	means := map[string]float64{}
	for program, s := range after {
		if n := s.RunCount - before[program].RunCount; n > 0 {
			means[program] = float64((s.Runtime - before[program].Runtime).Nanoseconds()) / float64(n)
			r.sample(name+"/program="+program, n, means[program], "ns/run")
		}
	}
	return means, nil
}
