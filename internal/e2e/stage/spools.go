//go:build linux

package stage

import (
	"fmt"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"
)

// PrivateRun and PrivateSpools give servers an empty /run, and at(1) and cron empty directories.
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

// spools are the host's directories, with their owners, and without the jobs: at(1) wants the number of the last one.
const spools = `cp -a /var/spool/cron /run/spools &&
	find /run/spools -type f ! -name .SEQ -delete &&
	mount --bind /run/spools /var/spool/cron`

func mountSpools() error {
	if err := PrivateRun(); err != nil {
		return err
	}
	if out, err := exec.Command("sh", "-c", spools).CombinedOutput(); err != nil {
		return fmt.Errorf("hide the spools: %w: %s", err, out)
	}
	return nil
}
