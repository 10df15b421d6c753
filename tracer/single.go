//go:build linux

package tracer

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// leaveOut removes the programs that are loaded one by one from the object: if a kernel
// refuses one of them, the rest must still load.
func leaveOut(spec *ebpf.CollectionSpec) {
	for _, name := range slices.Concat(forkRefusal.programs[:], signalRefusal.programs[:], selfHooks) {
		delete(spec.Programs, name)
	}
}

// loadSingle loads one of the programs that leaveOut removed, over the existing maps,
// and attaches it.
func (t *Tracer) loadSingle(k *kernel, name string) (*ebpf.Program, link.Link, error) {
	spec, err := t.object()
	if err != nil {
		return nil, nil, err
	}
	if spec.Programs[name] == nil {
		return nil, nil, errNoProgram
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
	for name, m := range t.maps {
		spec.Maps[name].MaxEntries, spec.Maps[name].Flags = m.MaxEntries(), m.Flags()
	}
	options := collection
	options.MapReplacements, options.Cache = t.maps, k.types
	coll, err := ebpf.NewCollectionWithOptions(spec, options)
	if err != nil {
		return nil, nil, err
	}
	p := coll.DetachProgram(name)
	coll.Close()
	l, err := attachSingle(p)
	if err != nil {
		p.Close()
		return nil, nil, err
	}
	return p, l, nil
}

func attachSingle(p *ebpf.Program) (link.Link, error) {
	if p.Type() == ebpf.LSM {
		return link.AttachLSM(link.LSMOptions{Program: p})
	}
	return link.AttachTracing(link.TracingOptions{Program: p})
}

// errNoProgram: the object for this kernel has no such program.
var errNoProgram = errors.New("not for this kernel version")

// errIdle: a program was loaded and attached, but did not run.
var errIdle = errors.New("loads, attaches and never runs")
