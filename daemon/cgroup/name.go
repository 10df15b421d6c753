//go:build linux

package cgroup

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/tracer"
)

// nameOf is the name of a session's outer cgroup. A slice has that of its parent before it: user-1000-NAME.slice.
func nameOf(root tracer.Identity) string {
	return fmt.Sprintf("lineage_%d_%d", root.PID, root.Start)
}

// rootOf returns whose outer cgroup the directory of this name is. False: nobody's.
func rootOf(name string) (root tracer.Identity, ok bool) {
	name = strings.TrimSuffix(name, ".slice")
	name = name[strings.LastIndexByte(name, '-')+1:]
	n, _ := fmt.Sscanf(name, "lineage_%d_%d", &root.PID, &root.Start)
	return root, n == 2 && name == nameOf(root)
}
