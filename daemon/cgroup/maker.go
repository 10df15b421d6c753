//go:build linux

package cgroup

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Maker makes and removes the cgroups of sessions. A group is the path of an outer cgroup below the mount of
// version 2, as /proc/PID/cgroup shows it. Methods may be called from any goroutine, and may block.
type Maker interface {
	// Make makes the cgroups of a session, with limits, below that of its root, and moves the root into the
	// leaf. An error is one line for people that names what is missing. Then nothing is left behind.
	Make(root tracer.Identity, l *api.Limits) (group string, err error)
	// Move moves processes into the leaf. One that has exited is left out, though its PID is used again.
	Move(group string, all ...tracer.Identity) error
	// Set changes the limits.
	Set(group string, l *api.Limits) error
	// Freeze stops what is in the group, nested ones included, or lets it run again. No SIGCONT does that.
	Freeze(group string, frozen bool) error
	// Remove removes both cgroups. It fails while a process is in them.
	Remove(group string) error
}
