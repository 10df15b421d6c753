//go:build linux

package attribution

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// held is a kernel in which a PID belongs to one process, regardless of procfs.
type held struct {
	*kerneltest.Kernel
	by tracer.Identity
}

func (k *held) Identify(uint32) (tracer.Identity, error) { return k.by, nil }

// What procfs said of a PID is dropped if the PID was reused meanwhile.
func TestPIDChangesHands(t *testing.T) {
	proc := procfs.FS(t.TempDir())
	for name, text := range map[string]string{
		"stat":    "300 (x) S 20 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0",
		"cgroup":  "0::/lngtest\n",
		"environ": "BUILD_ID=7\x00",
	} {
		path := proc.Path(300, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is, was := tracer.Identity{PID: 300, Start: 2}, tracer.Identity{PID: 300, Start: 1}
	b := &Attribution{kernel: &held{kerneltest.New(), is}, proc: proc}
	for name, told := range map[string]func(id tracer.Identity) bool{
		"candidate": func(id tracer.Identity) bool {
			_, ok := b.read(&tracer.Process{Identity: id})
			return ok
		},
		"cookies": func(id tracer.Identity) bool { return len(b.cookies(id)) > 0 },
	} {
		if !told(is) {
			t.Errorf("%s: nothing of who is there still", name)
		}
		if told(was) {
			t.Errorf("%s: of another process", name)
		}
	}
}
