//go:build linux

package daemon

import "regexp"

// containerID is how docker, containerd, CRI-O and podman name what they run
// in a cgroup's path: 64 hexadecimal digits, alone or within a scope's name.
var containerID = regexp.MustCompile(`(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)

// container gives the id of the innermost container that a cgroup path is in,
// as short as docker prints it; "" if it is in none. The path is only a hint:
// who may make cgroups may call one like this.
func container(cgroup string) string {
	all := containerID.FindAllStringSubmatch(cgroup, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1][:12]
}
