//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// selfHooks are the programs of self-protection.
var selfHooks = []string{
	bpf.LineageProgSelfKill,
	bpf.LineageProgSelfSigio,
	bpf.LineageProgSelfPtrace,
	bpf.LineageProgSelfMap,
	bpf.LineageProgSelfProgram,
	bpf.LineageProgSelfUnlink,
	bpf.LineageProgSelfRename,
}

// SelfProtect denies members, root or not, actions against this process, which must be
// protected, and against its pins: signals, ptrace and the like, bpf(2) on our objects
// or with programs that could act on the daemon, and unpinning. All other processes may
// do them. It outlives Close and the process, until a tracer turns it off.
//
// Needs BPF LSM. The error names what this kernel refused; the rest is in force. Not
// for two goroutines at once. Minimum kernel 5.10.
func (t *Tracer) SelfProtect(on bool) error {
	if !on {
		return t.unprotectSelf()
	}
	k, err := probeKernel()
	if err != nil {
		return err
	}
	if err := k.selfProtectable(); err != nil {
		return fmt.Errorf("protect the daemon from members: %w", err)
	}
	if err := t.nameOurs(); err != nil {
		return fmt.Errorf("protect the daemon from members: %w", err)
	}
	var refused []error
	for _, name := range selfHooks {
		if err := t.protectSelf(k, name); err != nil {
			refused = append(refused, fmt.Errorf("%s: %s", name, reason(err)))
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("protect the daemon from members: %w", errors.Join(refused...))
	}
	return nil
}

// selfProtectable returns why self-protection cannot work here.
func (k *kernel) selfProtectable() error {
	if err := k.tryLSM(); err != nil {
		return errors.New("lsm: " + lsmReason(err))
	}
	return nil
}

// nameOurs tells the programs which process is the daemon, and which objects are ours.
func (t *Tracer) nameOurs() error {
	self, err := t.Identify(uint32(os.Getpid()))
	if err != nil {
		return err
	}
	if err := t.mark(self, FlagDaemon, 0); err != nil {
		return err
	}
	var ours []bpf.LineageOwnKey
	for name, m := range t.maps {
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("ask for map %s: %w", name, err)
		}
		id, ok := info.ID()
		if !ok {
			return fmt.Errorf("map %s has no id", name)
		}
		ours = append(ours, bpf.LineageOwnKey{Id: uint32(id)})
	}
	for _, dir := range []string{t.dir, filepath.Join(t.dir, t.pins)} {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return fmt.Errorf("stat %s: %w", dir, err)
		}
		// As in the kernel: MKDEV.
		device := unix.Major(st.Dev)<<20 | unix.Minor(st.Dev)
		ours = append(ours, bpf.LineageOwnKey{Device: device, Id: uint32(st.Ino)})
	}
	for _, k := range ours {
		if err := t.maps[bpf.LineageMapOwn].Update(k, uint8(1), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("note what is ours: %w", err)
		}
	}
	return nil
}

func (t *Tracer) selfPin(name string) string {
	return pinPath(filepath.Join(t.dir, t.pins), linkPin, name)
}

// protectSelf attaches one program, unless it is attached, and pins its link, which
// keeps the program.
func (t *Tracer) protectSelf(k *kernel, name string) error {
	if _, err := os.Stat(t.selfPin(name)); err == nil {
		return nil
	}
	p, l, err := t.loadSingle(k, name)
	if err != nil {
		return err
	}
	defer p.Close()
	defer l.Close()
	return l.Pin(t.selfPin(name))
}

func (t *Tracer) unprotectSelf() error {
	for _, name := range selfHooks {
		if err := os.Remove(t.selfPin(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("take self-protection away: %w", err)
		}
	}
	return nil
}
