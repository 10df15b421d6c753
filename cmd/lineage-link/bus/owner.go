//go:build linux

package bus

import (
	"io/fs"
	"syscall"
)

// group is the group of a file.
func group(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Gid }
