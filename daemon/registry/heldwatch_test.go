//go:build linux

package registry

import (
	"context"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A pass reads the members that have used a CPU since they were read, and no others.
func TestHeldWatch(t *testing.T) {
	o, k := newRegistry(t)
	me := uint32(os.Getpid())
	s := session(t, o, k, me)
	k.Fork(me, 4000000, "lngtest-gone") // no PID of this host
	o.holds = resources.New("/proc", k.Identify)
	ctx, cancel := context.WithCancel(t.Context())
	go o.Run(ctx)
	defer func() { cancel(); <-o.Done() }()
	open := func() (c net.PacketConn, port int) {
		c, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return c, c.LocalAddr().(*net.UDPAddr).Port
	}
	w := heldWatch{registry: o}
	holds := func(port int) (yes bool) {
		t.Helper()
		if !w.pass(ctx) {
			t.Error("no session")
		}
		if err := o.do(func() { yes = slices.Contains(s.ports(), port) }); err != nil {
			t.Fatal(err)
		}
		return yes
	}
	runs := func(pid uint32) { k.Edit(pid, func(p *kerneltest.Proc) { p.CPUTime++ }) }

	first, a := open()
	defer first.Close()
	if !holds(a) {
		t.Error("the first pass did not find a port")
	}
	second, b := open()
	if holds(b) {
		t.Error("a process was read that has not run")
	}
	runs(4000000)
	if holds(b) || !holds(a) {
		t.Error("another process has run, and what this one holds changed")
	}
	if runs(me); !holds(b) || !holds(a) {
		t.Error("a process has run, and was not read")
	}
	second.Close()
	if runs(me); holds(b) || !holds(a) {
		t.Error("a port that was closed is still held")
	}
	k.Exit(4000000, 0)
	if !holds(a) {
		t.Error("another process has exited, and what this one holds changed")
	}
	k.Edit(me, func(p *kerneltest.Proc) { p.Dead = true })
	if holds(a) {
		t.Error("a dead process holds a port")
	}
	if err := o.do(func() { s.info.State = tracer.StateEnding }); err != nil {
		t.Fatal(err)
	}
	if w.pass(ctx) || w.read != nil {
		t.Error("no session is active, and there is something to look at")
	}
}
