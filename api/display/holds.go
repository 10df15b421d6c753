package display

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Port names a listening socket as ss does.
func Port(p *api.Port) string {
	if p.Proto == "unix" {
		return "unix " + Text(p.Addr)
	}
	return Text(p.Proto + " " + net.JoinHostPort(p.Addr, strconv.Itoa(p.Port)))
}

// Lock names a lock, and the processes that wait for it.
func Lock(l *api.Lock) string {
	if len(l.Waiting) == 0 {
		return lockName(l)
	}
	return lockName(l) + ", waited for by " + strings.Trim(fmt.Sprint(l.Waiting), "[]")
}

func lockName(l *api.Lock) string {
	s := l.Type
	switch {
	case l.Type == "file":
		s = "lock file"
	case l.Mode != "":
		s += " (" + l.Mode + ")"
	}
	return Text(s + " " + l.Path)
}
