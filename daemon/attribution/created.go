//go:build linux

package attribution

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"golang.org/x/sys/unix"
)

// made returns when a unit was made on request, by systemd-run or over D-Bus: systemd
// writes its description then, and not again when it starts the unit later or anew. It
// is false if it was not. The unit's name is that of a cgroup, so it has no slash.
func (a *Attribution) made(p broker.Place) (boottime uint64, ok bool) {
	dir := "/run/systemd/transient"
	if p.User >= 0 {
		dir = fmt.Sprintf("/run/user/%d/systemd/transient", p.User)
	}
	st, err := os.Lstat(filepath.Join(a.files, dir, p.Unit))
	if err != nil {
		return 0, false
	}
	// The file's time is that of the last clock tick.
	return uint64(max(0, st.ModTime().Add(20*time.Millisecond).Sub(a.clock.Zero()))), true
}

const maxBundle = 4 << 20

// container returns the name of the container that a process is in, and when it was
// made, from docker's own record. The kernel leads there: the working directory of its
// parent, the shim, is the bundle, whose mounts lie beside the record. All of these
// files must belong to root.
func (a *Attribution) container(x *candidate) (name string, created time.Time) {
	var bundle struct {
		Mounts []struct {
			Destination, Source string
		}
	}
	dir := a.proc.Link(x.Parent.PID, "cwd")
	if x.place.Container == "" || dir == "" || filepath.Base(dir) != x.place.Container || readRoots(filepath.Join(dir, "config.json"), &bundle) != nil {
		return "", created
	}
	for _, m := range bundle.Mounts {
		if m.Destination != "/etc/hostname" || filepath.Base(filepath.Dir(m.Source)) != x.place.Container {
			continue
		}
		var record struct {
			ID, Name string
			Created  time.Time
		}
		if readRoots(filepath.Join(filepath.Dir(m.Source), "config.v2.json"), &record) != nil || record.ID != x.place.Container {
			return "", created
		}
		return strings.TrimPrefix(record.Name, "/"), record.Created
	}
	return "", created
}

// containerName is docker's name of the container that a process is in, else the
// container's id; "" if it is in none.
func (a *Attribution) containerName(x *candidate) string {
	if x.place.Container == "" {
		return ""
	}
	name, _ := a.container(x)
	return cmp.Or(name, broker.ShortID(x.place.Container))
}

// readRoots decodes a file that only root can have written.
func readRoots(path string, into any) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open record: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at record %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || !rules.Ours(st.Uid) || st.Mode&0o022 != 0 || st.Size > maxBundle {
		return fmt.Errorf("record %s: not owned by root, or too large", path)
	}
	if err := json.NewDecoder(f).Decode(into); err != nil {
		return fmt.Errorf("decode record %s: %w", path, err)
	}
	return nil
}
