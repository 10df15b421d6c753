//go:build linux

package tracer

import (
	"fmt"
	"strings"
)

// A session that holds work of another one is nested nowhere, and the kernel
// has no field that tells whose work it is. Its name does, as nobody else can
// take such a one: who reads the kernel's record alone knows it too.
const (
	besideStrong = "~for "
	besideWeak   = "~for weakly "
)

// name is what the kernel calls the session.
func (s *SessionSpec) name() string {
	switch {
	case s.For == 0:
		return s.Name
	case s.Weak:
		return fmt.Sprintf("%s%x", besideWeak, uint64(s.For))
	}
	return fmt.Sprintf("%s%x", besideStrong, uint64(s.For))
}

// called takes the kernel's name of the session.
func (s *SessionInfo) called(name string) {
	s.Name = name
	rest, ok := strings.CutPrefix(name, besideWeak)
	weak := ok
	if !ok {
		rest, ok = strings.CutPrefix(name, besideStrong)
	}
	var id uint64
	if _, err := fmt.Sscanf(rest, "%x", &id); !ok || err != nil || id == 0 {
		return
	}
	s.Name, s.For, s.Weak = "", SessionID(id), weak
}
