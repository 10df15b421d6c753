//go:build linux

package boot

import (
	"fmt"
	"io"
	"path"
)

// An archive writes the newc format of cpio. A directory is written once, before the first file in it.
type archive struct {
	w    io.Writer
	ino  int
	dirs map[string]bool
	err  error // the first one; nothing is written after it
}

func newArchive(w io.Writer) *archive { return &archive{w: w, dirs: map[string]bool{"/": true}} }

const (
	modeDir  = 0o040755
	modeFile = 0o100755
	modeLink = 0o120777
	modeChar = 0o020600
)

func (a *archive) dir(name string)                    { a.entry(name, modeDir, nil, 0, 0) }
func (a *archive) file(name string, body []byte)      { a.entry(name, modeFile, body, 0, 0) }
func (a *archive) link(name, to string)               { a.entry(name, modeLink, []byte(to), 0, 0) }
func (a *archive) char(name string, major, minor int) { a.entry(name, modeChar, nil, major, minor) }

// fail notes the first error.
func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// close writes the end of the archive.
func (a *archive) close() error {
	a.put("TRAILER!!!", 0, nil, 0, 0)
	return a.err
}

func (a *archive) entry(name string, mode int, body []byte, major, minor int) {
	name = path.Clean("/" + name)
	if mode&^0o7777 == modeDir&^0o7777 {
		if a.dirs[name] {
			return
		}
		a.dirs[name] = true
	}
	a.dir(path.Dir(name))
	a.put(name[1:], mode, body, major, minor)
}

func (a *archive) put(name string, mode int, body []byte, major, minor int) {
	if a.err != nil {
		return
	}
	a.ino++
	// inode, mode, uid, gid, links, mtime, size, device, special device, name, checksum
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.ino, mode, 0, 0, 1, 0, len(body), 0, 0, major, minor, len(name)+1, 0, name)
	for _, part := range [][]byte{[]byte(header), padding(len(header)), body, padding(len(body))} {
		if _, a.err = a.w.Write(part); a.err != nil {
			return
		}
	}
}

// padding fills n bytes up to a multiple of four.
func padding(n int) []byte { return make([]byte, -n&3) }
