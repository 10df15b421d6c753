//go:build linux

package container

import (
	"errors"
	"fmt"
)

// Why a process is neither a container's main process nor a command that was put into one.
var (
	ErrNone  = errors.New("not in a container of docker or containerd")
	ErrInner = errors.New("in a PID namespace within the container")
)

// Entered returns the container into which root was put from outside, or whose main process it is. pid is root, or a
// process that root left: it tells where root was. Any error but ErrNone and ErrInner means that the runtime's records were
// not complete, or that something changed while they were read.
func (f *Finder) Entered(root, pid uint32) (found Found, err error) {
	id, runtime, err := f.id(pid)
	switch {
	case err != nil:
		return Found{}, err
	case id == "":
		return Found{}, ErrNone
	}
	supervisor, _ := f.supervisor(pid, id)
	switch {
	case supervisor <= 1:
		return Found{}, fmt.Errorf("pid %d has no supervisor: %w", pid, errMoved)
	case f.conmon(supervisor):
		return Found{}, ErrNone
	}
	main, err := f.main(supervisor, id)
	if err != nil {
		return Found{}, err
	}
	switch same, err := f.together(main, pid); {
	case err != nil:
		return Found{}, err
	case !same:
		return Found{}, ErrInner
	}
	found, err = f.find(pid, id, runtime)
	if err == nil && found.Container == nil {
		err = errMoved
	}
	found.Main = main
	return found, err
}
