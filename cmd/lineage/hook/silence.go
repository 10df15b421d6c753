package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A Note is a file of the user's that exists while no daemon answers.
type Note struct {
	name string
	dirs []string // the first that is ours has the file
}

// most is how long a note may get, in bytes.
const most = 64

// NewNote names the note. It is in XDG_RUNTIME_DIR. Under sudo, su and cron and in containers
// that is not set, or another user's: then it is in a directory of the user's own below TMPDIR.
func NewNote(env func(string) string, name string) *Note {
	n := &Note{name: name}
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		n.dirs = append(n.dirs, dir)
	}
	tmp := env("TMPDIR")
	if !filepath.IsAbs(tmp) {
		tmp = "/tmp"
	}
	n.dirs = append(n.dirs, filepath.Join(tmp, fmt.Sprintf("lineage-%d", os.Geteuid())))
	return n
}

// Read returns what the note says.
func (n *Note) Read() (text string, there bool) {
	root := n.open(false)
	if root == nil {
		return "", false
	}
	defer root.Close()
	if info, err := root.Lstat(n.name); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return "", err == nil
	}
	b, err := root.ReadFile(n.name)
	return string(b), err == nil
}

// Write replaces the note, and Add appends to it. False: it cannot be kept.
func (n *Note) Write(text string) bool {
	n.Remove()
	return n.Add(text)
}

func (n *Note) Add(text string) bool {
	root := n.open(true)
	if root == nil {
		return false
	}
	defer root.Close()
	flags := os.O_WRONLY | os.O_APPEND
	info, err := root.Lstat(n.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		flags |= os.O_CREATE | os.O_EXCL // not through a link
	case err != nil || !info.Mode().IsRegular():
		return false
	case info.Size()+int64(len(text)) > most:
		return true
	}
	f, err := root.OpenFile(n.name, flags, 0o600)
	if err != nil {
		return false
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close()) == nil
}

// Remove notes that a daemon answers.
func (n *Note) Remove() {
	if root := n.open(false); root != nil {
		_ = root.Remove(n.name)
		root.Close()
	}
}

// open opens the note's directory; nil: every one of them can be written by others. A program of
// root's may have another user's environment, and everybody may make links in /tmp.
func (n *Note) open(create bool) *os.Root {
	for i, dir := range n.dirs {
		if last := i == len(n.dirs)-1; last && create {
			_ = os.Mkdir(dir, 0o700)
		}
		before, err := os.Lstat(dir) // not of a link's target
		if err != nil || !ours(before) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		if now, err := root.Stat("."); err == nil && os.SameFile(before, now) {
			return root
		}
		root.Close()
	}
	return nil
}

func ours(dir fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	return ok && dir.IsDir() && int(st.Uid) == os.Geteuid() && dir.Mode().Perm()&0o022 == 0
}
