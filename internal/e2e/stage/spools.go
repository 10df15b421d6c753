//go:build linux

package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// PrivateRun and PrivateSpools give servers an empty /run, and at(1) and cron empty
// directories, in place of the host's: this is the test's own mount namespace. Once is
// enough.
var (
	PrivateRun    = sync.OnceValue(func() error { return hide("/run") })
	PrivateSpools = sync.OnceValue(mountSpools)
)

// hide mounts an empty directory over another one.
func hide(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("lngtest", dir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

func mountSpools() error {
	spools := map[string]unix.Stat_t{}
	for _, dir := range []string{"/var/spool/cron/atjobs", "/var/spool/cron/atspool", "/var/spool/cron/crontabs"} {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err == nil {
			spools[dir] = st
		}
	}
	if err := errors.Join(PrivateRun(), hide("/var/spool/cron")); err != nil {
		return err
	}
	for dir, st := range spools {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := os.Chown(dir, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
		if err := unix.Chmod(dir, st.Mode); err != nil {
			return err
		}
		if filepath.Base(dir) != "atjobs" {
			continue
		}
		seq := filepath.Join(dir, ".SEQ") // the number of the last job
		if err := os.WriteFile(seq, nil, 0o600); err != nil {
			return err
		}
		if err := os.Chown(seq, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return nil
}
