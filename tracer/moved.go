//go:build linux

package tracer

import "github.com/lineage-ebpf/lineage/bpf"

// Moved is a member's arrival in a cgroup (version 2).
type Moved struct {
	Cgroup  uint64    // its id, the inode of its directory
	Path    string    // in the hierarchy, its first 255 bytes; "": not known
	Outside bool      // of its session's cgroup: user space finds out
	By      Identity  // who put it there; zero: not known
	Session SessionID // of By; 0: none
	UID     uint32    // of By, effective
	Comm    string    // of By, which chooses it: any bytes
}

// WatchMoves has each move of a member of the session, or of one nested in it, to another cgroup reported as an
// [EventMoved] from now on, and the birth of one elsewhere than its creator. [ErrNotFound].
func (t *Tracer) WatchMoves(id SessionID) error {
	return t.onSession(bpf.LineageProgVerbMark, "watch moves of", &bpf.LineageVerbArgs{Session: uint64(id)})
}
