//go:build linux

package tracer

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestSetGuard: nothing is refused that is only to be recorded, also on a host whose kernel could.
func TestSetGuard(t *testing.T) {
	tr := &Tracer{control: control{new(bpf.LineageShared)}}
	for g, want := range map[Guarding]uint32{
		{}: 0, {Refuse: true}: 0, {All: true}: guardAny | guardAll, {Some: true}: guardAny, {Some: true, Refuse: true}: guardAny | guardRefuses,
	} {
		tr.SetGuard(g)
		require.Equal(t, tr.control.shared.Guard, want)
	}
}

// TestMissedBirths: a birth that the kernel's recursion guard kept from the hook is missed, unless second writers had entered the process.
func TestMissedBirths(t *testing.T) {
	require.Root(t)
	hook, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 'x', asm.Word), asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -4), asm.Mov.Imm(asm.R2, 4),
		asm.FnTracePrintk.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}})
	require.NoError(t, err)
	defer hook.Close()
	itself, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "bpf_trace_printk", Program: hook})
	require.NoError(t, err)
	defer itself.Close()
	_, err = hook.Run(&ebpf.RunOptions{})
	require.NoError(t, err)
	tr := &Tracer{programs: map[string]*ebpf.Program{bpf.LineageProgForkBirth: hook}}
	if n, err := tr.MissedBirths(); n == 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	tr.programs[bpf.LineageProgAttachBirth], tr.programs[bpf.LineageProgNotifyDeath] = hook, hook
	if n, err := tr.MissedBirths(); n != 0 || err != nil {
		t.Errorf("%d with second writers, %v", n, err)
	}
}
