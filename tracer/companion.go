//go:build linux

package tracer

import (
	"fmt"
	"strings"
)

// A companion session is nested nowhere, and the kernel has no field for the session
// whose work it holds. Its name says so instead, because no user can choose such a
// name: it can be read from the kernel's record alone.
const (
	companionStrong = "~for "
	companionWeak   = "~for weakly "
)

// name is the name of the session in the kernel.
func (s *SessionSpec) name() string {
	switch {
	case s.For == 0:
		return s.Name
	case s.Weak:
		return fmt.Sprintf("%s%x", companionWeak, uint64(s.For))
	}
	return fmt.Sprintf("%s%x", companionStrong, uint64(s.For))
}

func (s *SessionInfo) setFromKernelName(name string) {
	s.Name = name
	rest, ok := strings.CutPrefix(name, companionWeak)
	weak := ok
	if !ok {
		rest, ok = strings.CutPrefix(name, companionStrong)
	}
	var id uint64
	if _, err := fmt.Sscanf(rest, "%x", &id); !ok || err != nil || id == 0 {
		return
	}
	s.Name, s.For, s.Weak = "", SessionID(id), weak
}
