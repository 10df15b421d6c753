//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer"
)

const pins = "/sys/fs/bpf/lngtest-bench"

// A kernel is a kernel side of our own, with a reader of its events.
type kernel struct {
	*tracer.Tracer
	read chan error
}

// trace loads the programs.
func trace() (*kernel, error) {
	tr, err := tracer.Open(tracer.Options{Dir: pins})
	if err != nil {
		return nil, err
	}
	k := &kernel{tr, make(chan error, 1)}
	go func() {
		var ev tracer.Event
		for {
			if err := tr.Read(&ev); err != nil {
				k.read <- err
				return
			}
		}
	}()
	return k, nil
}

// close unloads the kernel side.
func (k *kernel) close() error {
	err := k.Close()
	if read := <-k.read; !errors.Is(read, os.ErrClosed) {
		err = errors.Join(err, read)
	}
	return errors.Join(err, tracer.Unload(pins))
}

// session makes the worker the root of a session.
func (k *kernel) session(w *worker) (tracer.SessionID, error) {
	return k.Create(tracer.SessionSpec{Root: tracer.Identity{PID: uint32(w.pid())}})
}

// release waits until the session is empty and releases it.
func (k *kernel) release(id tracer.SessionID) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s, err := k.Settle(id)
		if err != nil {
			return err
		}
		if s.State == tracer.StateEmpty {
			return k.Release(id)
		}
	}
	return fmt.Errorf("session %v is not empty after 30 s", id)
}

// runs is what the kernel counted for each program: its runs and their time.
type runs map[string]ebpf.ProgramStats

// The tracepoints of the hooks, by the names of their empty programs.
var tracepoints = map[string]string{
	"none_fork": "sched_process_fork",
	"none_exec": "sched_process_exec",
	"none_exit": "sched_process_exit",
	"none_free": "sched_process_free",
}

// metered is a kernel side with BPF statistics on, and an empty program on each
// tracepoint: its time is the statistics' own cost.
type metered struct {
	*kernel
	stats io.Closer
	empty map[string]*ebpf.Program
	links []link.Link
}

func newMetered() (*metered, error) {
	k, err := trace()
	if err != nil {
		return nil, err
	}
	m := &metered{kernel: k, empty: map[string]*ebpf.Program{}}
	if m.stats, err = ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)); err != nil {
		return nil, errors.Join(err, k.close())
	}
	for name, tracepoint := range tracepoints {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: name, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.empty[name] = p
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.links = append(m.links, l)
	}
	return m, nil
}

func (m *metered) close() error {
	var errs []error
	for _, l := range m.links {
		errs = append(errs, l.Close())
	}
	for _, p := range m.empty {
		errs = append(errs, p.Close())
	}
	return errors.Join(append(errs, m.stats.Close(), m.kernel.close())...)
}

func (m *metered) runs() (runs, error) {
	ours, err := m.Stats()
	if err != nil {
		return nil, err
	}
	all := runs{}
	for name, s := range ours {
		all[name] = *s
	}
	for name, p := range m.empty {
		s, err := p.Stats()
		if err != nil {
			return nil, err
		}
		all[name] = *s
	}
	return all, nil
}

// during reports the mean ns of a run of each program while do ran.
func (m *metered) during(r *report, name string, do func() error) error {
	before, err := m.runs()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	after, err := m.runs()
	if err != nil {
		return err
	}
	for program, s := range after {
		if n := s.RunCount - before[program].RunCount; n > 0 {
			ns := (s.Runtime - before[program].Runtime).Nanoseconds()
			r.sample(name+"/program="+program, n, float64(ns)/float64(n), "ns/run")
		}
	}
	return nil
}
