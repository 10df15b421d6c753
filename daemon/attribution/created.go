//go:build linux

package attribution

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// made returns when a unit was made on request, by systemd-run or over D-Bus: systemd
// writes its description then, and not again when it starts the unit later or anew. It
// is false if it was not. The unit's name is that of a cgroup, so it has no slash.
func (a *Attribution) made(p broker.Place) (boottime uint64, ok bool) {
	dir, uid := "/run/systemd/transient", uint32(0)
	if p.User >= 0 {
		dir, uid = fmt.Sprintf("/run/user/%d/systemd/transient", p.User), uint32(p.User)
	}
	// The user may have mounted a dead file server there.
	dir = filepath.Join(a.o.Files, dir)
	st, err := procfs.Bounded(procfs.UserKey(dir, uid), func() (os.FileInfo, error) { return os.Lstat(filepath.Join(dir, p.Unit)) })
	if err != nil {
		return 0, false
	}
	// The file's time is that of the last clock tick.
	return uint64(max(0, st.ModTime().Add(20*time.Millisecond).Sub(a.o.Clock.Zero()))), true
}
