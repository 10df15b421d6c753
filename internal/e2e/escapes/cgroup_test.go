//go:build linux

package escapes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func newCgroup(x *trial) string { return x.mkdir(stage.Mounted("cgroup2", ""), "cgroup of version 2") }

func newFreezer(x *trial) string {
	return x.mkdir(stage.Mounted("cgroup", "freezer"), "version 1 freezer")
}

func (x *trial) mkdir(under, kind string) string {
	x.t.Helper()
	if under == "" {
		x.t.Skipf("no %s is mounted", kind)
	}
	dir, err := os.MkdirTemp(under, "lngtest-")
	require.NoError(x.t, err)
	x.t.Cleanup(func() { remove(x.t, x.Instance, dir) })
	return dir
}

// remove removes a cgroup and those below it, when dying processes have left it.
func remove(t *testing.T, i *stage.Instance, dir string) {
	i.In(t).Until("empty cgroup "+dir, func() bool {
		_ = os.Remove(filepath.Join(dir, "sub"))
		err := os.Remove(dir)
		return err == nil || os.IsNotExist(err)
	})
}
