package lookup

import (
	"cmp"
	"strings"
)

// ContainerIDLength is how many hexadecimal digits a container's id has.
const ContainerIDLength = 64

// ContainerID returns the id of the innermost container that a cgroup path is in, and its runtime if the path tells; "" if
// it is in none. docker, containerd, CRI-O and podman name the container's cgroup by its id, alone or as
// PREFIX-ID.scope. conmon has a scope beside that of its container.
func ContainerID(path string) (id, runtime string) {
	above := ""
	for part := range strings.SplitSeq(path, "/") {
		prefix, last := "", strings.TrimSuffix(part, ".scope")
		if i := strings.LastIndexByte(last, '-'); i >= 0 {
			prefix, last = last[:i], last[i+1:]
		}
		if len(last) == ContainerIDLength && strings.Trim(last, "0123456789abcdef") == "" &&
			!strings.HasSuffix(prefix, "conmon") {
			prefix = cmp.Or(prefix, above)
			id, runtime = last, runtimes[prefix]
		}
		above = part
	}
	return id, runtime
}

// runtimes has the runtimes by what is in a cgroup's path before the id.
var runtimes = map[string]string{
	"docker": "docker", "cri-containerd": "containerd", "k8s.io": "containerd", "crio": "cri-o",
	"libpod": "podman", "libpod_parent": "podman",
}

// ContainerIDOf returns the same from /proc/PID/cgroup. Where cgroup v1 is in use, docker's own hierarchies may show what v2
// does not: any line will do.
func ContainerIDOf(cgroups string) (id, runtime string) {
	for line := range strings.Lines(cgroups) {
		if _, path, ok := strings.Cut(line, ":/"); ok {
			if id, runtime = ContainerID(strings.TrimSuffix(path, "\n")); id != "" {
				return id, runtime
			}
		}
	}
	return "", ""
}
