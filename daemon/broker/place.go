package broker

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Place is where a cgroup puts a process. The path is only a hint unless a member asked
// for that place: a process that may make cgroups may name one as it likes.
type Place struct {
	Unit string // the innermost systemd unit, "" if none
	// User is the uid whose service manager runs the unit, -1: the host's.
	User      int
	Container string // its whole id, 64 hexadecimal digits; "" if in none
}

// containerID is how docker, containerd, CRI-O and podman name a container in a
// cgroup's path: 64 hexadecimal digits, alone or within a scope's name.
var containerID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
})

// Container returns the id of the innermost container that a cgroup path is in, "" if
// it is in none.
func Container(path string) string {
	all := containerID().FindAllStringSubmatch(path, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// ShortID is a container's id, shortened as docker prints it.
func ShortID(id string) string { return id[:min(len(id), 12)] }

// PlaceOf reads /proc/PID/cgroup. Where cgroup v1 is in use, systemd's own hierarchy
// and docker's may show what v2 does not: any line will do.
func PlaceOf(cgroups string) Place {
	p := Place{User: -1}
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(line, ":")
		controllers, path, ok := strings.Cut(strings.TrimSuffix(rest, "\n"), ":")
		if !ok {
			continue
		}
		if p.Container == "" {
			p.Container = Container(path)
		}
		if p.Unit == "" && (controllers == "" || controllers == "name=systemd") {
			p.Unit, p.User = unitOf(path)
		}
	}
	return p
}

// unitOf returns the innermost unit that runs something. user@UID.service is the
// manager of a user: it started everything below it.
func unitOf(path string) (unit string, user int) {
	user = -1
	for part := range strings.SplitSeq(path, "/") {
		manager, ok := strings.CutPrefix(part, "user@")
		if uid, err := strconv.Atoi(strings.TrimSuffix(manager, ".service")); ok && err == nil && uid >= 0 {
			unit, user = "", uid
			continue
		}
		if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
			unit = part
		}
	}
	return unit, user
}
