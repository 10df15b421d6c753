package lookup

import (
	"strconv"
	"strings"
)

// BrokerPlace is where a cgroup puts a process. The path is only a hint unless a member asked
// for that place: a process that may make cgroups may name one as it likes.
type BrokerPlace struct {
	Unit string // the innermost systemd unit, "" if none
	// User is the uid whose service manager runs the unit, -1: the host's.
	User int
}

// BrokerPlaceOf reads /proc/PID/cgroup. Where cgroup v1 is in use, systemd's own hierarchy
// may show what v2 does not: either line will do.
func BrokerPlaceOf(cgroups string) BrokerPlace {
	p := BrokerPlace{User: -1}
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(line, ":")
		controllers, path, ok := strings.Cut(strings.TrimSuffix(rest, "\n"), ":")
		if !ok {
			continue
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
