//go:build linux

package container

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/lineage"
)

// Why a process was not put into a container that runs already.
var (
	ErrNone  = errors.New("not in a container of docker or containerd")
	ErrMain  = errors.New("the container's own main process")
	ErrInner = errors.New("in a PID namespace within the container")
)

// Entered returns the container into which root was put from outside. pid is root, or a process that root left: it tells
// where root was. Any error but ErrNone, ErrMain and ErrInner means that the runtime's records were not complete, or that
// something changed while they were read.
func (f *Finder) Entered(root, pid uint32) (*lineage.Container, error) {
	id, runtime, err := f.id(pid)
	switch {
	case err != nil:
		return nil, err
	case id == "":
		return nil, ErrNone
	}
	supervisor, _ := f.supervisor(pid, id)
	switch {
	case supervisor <= 1:
		return nil, fmt.Errorf("pid %d has no supervisor: %w", pid, errMoved)
	case f.conmon(supervisor):
		return nil, ErrNone
	}
	main, err := f.main(supervisor, id)
	if err != nil {
		return nil, err
	}
	if main == root {
		return nil, ErrMain
	}
	switch same, err := f.together(main, pid); {
	case err != nil:
		return nil, err
	case !same:
		return nil, ErrInner
	}
	c, err := f.find(pid, id, runtime)
	if err == nil && c == nil {
		err = errMoved
	}
	return c, err
}
