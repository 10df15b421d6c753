//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lineage-ebpf/lineage/internal/vm/guest"
	"golang.org/x/sys/unix"
)

type mount struct {
	source, dir, kind, options string
	optional                   bool // not every kernel has it
}

var always = []mount{
	{"proc", "/proc", "proc", "", false},
	{"sys", "/sys", "sysfs", "", false},
	{"dev", "/dev", "devtmpfs", "", false},
	{"tmp", "/tmp", "tmpfs", "mode=1777", false},
	{"run", "/run", "tmpfs", "mode=755", false},
	{"devpts", "/dev/pts", "devpts", "ptmxmode=666", false},
	{"shm", "/dev/shm", "tmpfs", "mode=1777", false},
	{"tracefs", "/sys/kernel/tracing", "tracefs", "", true},
	{"security", "/sys/kernel/security", "securityfs", "", true},
}

// version1 is the layout of a host without the unified hierarchy. Newer kernels may be
// built without some of the controllers.
var version1 = []mount{
	{"cgroup", "/sys/fs/cgroup", "tmpfs", "mode=755", false},
	{"cgroup", "/sys/fs/cgroup/systemd", "cgroup", "none,name=systemd", false},
	{"cgroup", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct", true},
	{"cgroup", "/sys/fs/cgroup/memory", "cgroup", "memory", true},
	{"cgroup", "/sys/fs/cgroup/pids", "cgroup", "pids", true},
	{"cgroup", "/sys/fs/cgroup/freezer", "cgroup", "freezer", true},
}

var version2 = []mount{{"cgroup2", "/sys/fs/cgroup", "cgroup2", "", false}}

func mountAll(plan guest.Plan) error {
	always[0].options = plan.Proc
	mounts := append(always, version2...)
	if plan.Cgroup == "v1" {
		mounts = append(always, version1...)
	}
	for _, m := range mounts {
		err := os.MkdirAll(m.dir, 0o755)
		if err == nil {
			err = unix.Mount(m.source, m.dir, m.kind, 0, m.options)
		}
		if err != nil && m.kind == "devtmpfs" && errors.Is(err, unix.EBUSY) {
			continue // the kernel has mounted it
		}
		if err != nil {
			err = fmt.Errorf("mount %s at %s: %w", m.kind, m.dir, err)
			if !m.optional {
				return err
			}
			fmt.Println("init:", err)
		}
	}
	for name, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink("/proc/self/"+to, filepath.Join("/dev", name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
