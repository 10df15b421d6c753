package query

import (
	"io/fs"
	"syscall"
)

// fileID identifies a file for the daemon, whatever its name.
func fileID(info fs.FileInfo) (device, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Dev, st.Ino
	}
	return 0, 0
}
