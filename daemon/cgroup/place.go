//go:build linux

package cgroup

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// place is where systemd makes the cgroups of a session.
type place struct {
	slice string // the innermost slice of PID 1 that the root is in: user-1000.slice
	path  string // its cgroup; "" is the root
	unit  string // in it, what the root leaves: session-3.scope
}

// placeOf returns the place for a root in this cgroup. A slice below a unit is not one of PID 1.
func placeOf(cgroup string) (p place, err error) {
	p.slice = "-.slice"
	path := ""
	for dir := range strings.SplitSeq(strings.Trim(cgroup, "/"), "/") {
		path += "/" + dir
		name := strings.TrimPrefix(dir, "_") // which systemd puts before the name of a file of cgroups
		stem, slice := strings.CutSuffix(name, ".slice")
		switch {
		case p.unit != "":
		case slice && p.slice == stem[:max(strings.LastIndexByte(stem, '-'), 0)]+".slice",
			slice && p.slice == "-.slice" && !strings.Contains(stem, "-"):
			p.slice, p.path = name, path
		default:
			p.unit = name
		}
	}
	if ext := filepath.Ext(p.unit); ext != ".scope" && ext != ".service" {
		return p, fmt.Errorf("no unit of systemd has the cgroup %s", cgroup)
	}
	return p, nil
}

// stem is the name of a session's units, without ending. Systemd finds the parent of a slice by its name.
func (p *place) stem(name string) string {
	if p.slice == "-.slice" {
		return name
	}
	return strings.TrimSuffix(p.slice, ".slice") + "-" + name
}

// free has what the files of a cgroup say if there is no limit.
var free = map[string]string{
	"memory.max": "max", "memory.high": "max", "memory.swap.max": "max", "cpu.max": "max",
	"io.max": "", "cpuset.cpus": "", "cpuset.mems": "", "cgroup.freeze": "0",
}

// leave fails if a process of a unit would lose a limit on its way to another cgroup. A limit of tasks, which most units
// have, is returned instead, to be kept.
func leave(mount, unit, from, to string) (tasks uint64, err error) {
	tasks = math.MaxUint64
	for path := range upTo(from) {
		if path == "/" || strings.HasPrefix(to+"/", path+"/") {
			continue // it stays in that one
		}
		for file, none := range free {
			now := value(mount, path, file)
			if first, _, _ := strings.Cut(now, " "); now != "" && first != none {
				return 0, fmt.Errorf("%s has a limit of its own that the session would leave (%s of %s is %q): set it on a slice",
					unit, file, path, now)
			}
		}
		tasks = min(tasks, most(mount, path, "pids.max"))
	}
	return tasks, nil
}

// most is the limit in a file of a cgroup. No file: no limit.
func most(mount, path, file string) uint64 {
	n, err := strconv.ParseUint(value(mount, path, file), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}
