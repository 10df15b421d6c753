//go:build linux

package attribution

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
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

const maxBundle = 4 << 20

// container returns the name of the container that a process is in, and when it was
// made, from docker's own record. The kernel leads there: the working directory of its
// parent, the shim, is the bundle, whose mounts lie beside the record. All of these
// files must belong to root.
func (a *Attribution) container(x *candidate) (name string, created time.Time) {
	dir := a.o.Proc.Link(x.Parent.PID, "cwd")
	if x.place.Container == "" || dir == "" || filepath.Base(dir) != x.place.Container {
		return "", created
	}
	type configuration struct {
		Mounts []struct {
			Destination, Source string
		}
	}
	shim := a.o.Proc.Key(x.Parent.PID)
	bundle, err := decodeRoots[configuration](shim, filepath.Join(dir, "config.json"))
	if err != nil {
		return "", created
	}
	for _, m := range bundle.Mounts {
		if m.Destination != "/etc/hostname" || filepath.Base(filepath.Dir(m.Source)) != x.place.Container {
			continue
		}
		type state struct {
			ID, Name string
			Created  time.Time
		}
		record, err := decodeRoots[state](shim, filepath.Join(filepath.Dir(m.Source), "config.v2.json"))
		if err != nil || record.ID != x.place.Container {
			return "", created
		}
		return strings.TrimPrefix(record.Name, "/"), record.Created
	}
	return "", created
}

// decodeRoots decodes a file that only root can have written. Any process chooses its working
// directory, and with it the file, which may be of a dead file server.
func decodeRoots[T any](of procfs.Key, path string) (T, error) {
	return procfs.Bounded(of, func() (record T, err error) {
		f, err := procfs.OpenRegular(path, unix.O_NOFOLLOW, func(st *unix.Stat_t) error {
			if !rules.Ours(st.Uid) || st.Mode&0o022 != 0 || st.Size > maxBundle {
				return errNotRoots
			}
			return nil
		})
		if err != nil {
			return record, fmt.Errorf("read record: %w", err)
		}
		defer f.Close()
		if err := json.NewDecoder(io.LimitReader(f, maxBundle)).Decode(&record); err != nil {
			return record, fmt.Errorf("decode record %s: %w", path, err)
		}
		return record, nil
	})
}

var errNotRoots = errors.New("not owned by root, or too large")
