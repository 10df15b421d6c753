//go:build linux

package daemon

import "github.com/lineage-ebpf/lineage/daemon/broker"

// container gives the id of the innermost container that a cgroup path is in,
// as short as docker prints it; "" if it is in none. The path is only a hint:
// who may make cgroups may call one like this.
func container(cgroup string) string {
	return shortID(broker.Container(cgroup))
}

func shortID(id string) string { return id[:min(len(id), 12)] }
