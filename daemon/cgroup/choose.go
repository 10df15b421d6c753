//go:build linux

package cgroup

import (
	"errors"
	"os"
	"strings"
)

// Choose returns the Maker of this host, by systemd if that runs, and where its cgroup v2 is mounted.
func Choose() (Maker, string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, "", err
	}
	mount := mountOf(string(table))
	if mount == "" {
		return nil, "", errors.New("this host has no cgroup v2")
	}
	if booted() {
		return &systemd{mount, "/proc"}, mount, nil
	}
	return New(mount), mount, nil
}

// mountOf finds where cgroup v2 is mounted as a whole. Beside v1 that is /sys/fs/cgroup/unified.
func mountOf(mountinfo string) (mount string) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") || f[3] != "/" {
			continue
		}
		if mount == "" || strings.HasPrefix(f[4], "/sys/fs/cgroup") {
			mount = f[4]
		}
	}
	return mount
}
