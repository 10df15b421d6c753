//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MountBPFFS mounts a bpffs at dir for root alone, unless there is one. It is
// there until the host goes down, or until the mount namespace is gone that the
// caller is in.
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
	effective, err := effectiveCapabilities()
	info, statErr := os.Stat(dir)
	return err == nil && effective&(1<<unix.CAP_SYS_ADMIN) != 0 && statErr == nil && info.IsDir()
}

// checkBPFFS says whether dir, which need not exist, would be on a bpffs, and
// be root's there.
func checkBPFFS(dir string) error {
	parent := filepath.Dir(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(parent, &st); err != nil {
		return ErrNoBPFFS.with(parent + ": " + err.Error())
	}
	if st.Type != unix.BPF_FS_MAGIC {
		return ErrNoBPFFS.with("none mounted at " + parent)
	}
	// A plain mount is 1777: there others can take a free name, but not ours.
	if err := checkRoots(parent, true); err != nil {
		return err
	}
	return checkRoots(dir, false)
}

// checkRoots says whether a directory, if there is one, is root's and nobody
// else can change what it holds, or, if sticky will do, what root has in it.
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
		return ErrUnsafePins.with(fmt.Sprintf("users other than root may write to %s, mode %04o", dir, st.Mode&0o7777))
	}
	return nil
}
