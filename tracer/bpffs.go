//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// MountBPFFS mounts a bpffs at dir for root alone, unless there is one. It stays until
// the host shuts down, or until the caller's mount namespace is gone.
func MountBPFFS(dir string) (mounted bool, err error) {
	if err := checkBPFFS(filepath.Join(dir, "pins")); !errors.Is(err, ErrNoBPFFS) {
		return false, nil
	}
	if err := unix.Mount("bpf", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return false, fmt.Errorf("mount a bpffs at %s: %w", dir, err)
	}
	return true, nil
}

// mayMount reports whether MountBPFFS is likely to mount one.
func mayMount(dir string) bool {
	effective, err := procfs.EffectiveCapabilities()
	info, statErr := os.Stat(dir)
	return err == nil && effective&(1<<unix.CAP_SYS_ADMIN) != 0 && statErr == nil && info.IsDir()
}

// checkBPFFS checks that dir, which need not exist, would be on a bpffs and owned by
// root there.
func checkBPFFS(dir string) error {
	parent := filepath.Dir(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(parent, &st); err != nil {
		return ErrNoBPFFS.with(parent + ": " + err.Error())
	}
	if st.Type != unix.BPF_FS_MAGIC {
		return ErrNoBPFFS.with("none mounted at " + parent)
	}
	// A plain mount has mode 1777: others can create free names there, but cannot replace ours.
	if err := checkRoots(parent, true); err != nil {
		return err
	}
	return checkRoots(dir, false)
}

// checkRoots checks that a directory, if it exists, is root's, and that no other user
// can change its entries, or, if stickyWillDo, root's entries in it.
func checkRoots(dir string, stickyWillDo bool) error {
	var st unix.Stat_t
	switch err := unix.Lstat(dir, &st); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", dir, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return ErrUnsafePins.with(dir + " is not a directory")
	case st.Uid != 0:
		return ErrUnsafePins.with(fmt.Sprintf("%s belongs to uid %d", dir, st.Uid))
	case st.Mode&0o022 != 0 && !(stickyWillDo && st.Mode&unix.S_ISVTX != 0):
		return ErrUnsafePins.with(fmt.Sprintf("users other than root may write to %s, mode %04o",
			dir, st.Mode&0o7777))
	}
	return nil
}
