//go:build linux

package lookup

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Why a process is neither a container's main process nor a command that was put into one.
var (
	ErrNoContainer = errors.New("not in a container of docker or containerd")
	ErrInner       = errors.New("in a PID namespace within the container")
)

// Entered returns the container into which a process was put from outside, or whose main process it is. pid is that process, or
// one that it left; in is a process in the same PID namespace that it cannot have chosen: itself, or the process to which the
// kernel gave what it left. A process that has left the cgroup of its container is found by that, or by the shim that is its parent.
// Any error but ErrNoContainer and ErrInner means that the runtime's records were not complete, or that something changed while they were read.
func (f *ContainerFinder) Entered(in, pid uint32) (found FoundContainer, err error) {
	found, err = f.entered(in, pid)
	if err == nil || errors.Is(err, ErrInner) {
		return found, err
	}
	by := in
	if in == pid {
		by = f.shimsMain(pid)
	}
	if by != 0 {
		// The sandbox of a pod says nothing about its containers, and may be in another PID namespace than they.
		if other, e := f.entered(in, by); e == nil && !other.Sandbox() ||
			errors.Is(e, ErrInner) && errors.Is(err, ErrNoContainer) {
			return other, e
		}
	}
	return found, err
}

func (f FoundContainer) Sandbox() bool { return f.Container.Pod != "" && f.Container.Name == "" }

// shimsMain is the main process of the container in whose bundle the shim above a process works, 0: not found.
func (f *ContainerFinder) shimsMain(pid uint32) uint32 {
	for range 4 { // runc may be between them
		stat, err := f.proc.Stat(pid)
		if err != nil || stat.Parent <= 1 {
			return 0
		}
		pid = stat.Parent
		if id := procfs.Base(f.proc.Link(pid, "cwd")); len(id) == ContainerIDLength {
			main, _ := f.main(pid, id)
			return main
		}
	}
	return 0
}

func (f *ContainerFinder) entered(in, pid uint32) (found FoundContainer, err error) {
	id, runtime, err := f.id(pid)
	switch {
	case err != nil:
		return FoundContainer{}, err
	case id == "":
		return FoundContainer{}, ErrNoContainer
	}
	by, inside := f.supervisor(pid, id)
	switch {
	case by.pid <= 1:
		return FoundContainer{}, fmt.Errorf("pid %d has no supervisor: %w", pid, errMoved)
	case f.conmon(by.pid):
		return FoundContainer{}, ErrNoContainer
	}
	main, err := f.main(by.pid, id)
	if err != nil {
		return FoundContainer{}, err
	}
	switch same, err := f.together(main, in); {
	case err != nil:
		return FoundContainer{}, err
	case !same:
		return FoundContainer{}, ErrInner
	}
	found, err = f.recorded(by, inside, runtime)
	found.Main = main
	return found, err
}
