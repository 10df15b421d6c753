package hook

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A Note is a file in the user's runtime directory that exists while no daemon answers.
type Note struct{ dir, name string }

// most is how long a note may get, in bytes.
const most = 64

// NewNote names the note in XDG_RUNTIME_DIR. Under sudo, su and cron and in containers that is not set,
// or another user's: then nothing is kept.
func NewNote(env func(string) string, name string) *Note { return &Note{env("XDG_RUNTIME_DIR"), name} }

// Read returns what the note says.
func (n *Note) Read() (text string, there bool) {
	root := n.open()
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
	root := n.open()
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

func (n *Note) Remove() {
	if root := n.open(); root != nil {
		_ = root.Remove(n.name)
		root.Close()
	}
}

// open opens the note's directory; nil: there is none that only we can write to. A program of root's may have
// another user's environment.
func (n *Note) open() *os.Root {
	before, err := os.Lstat(n.dir) // not of a link's target
	if err != nil || !filepath.IsAbs(n.dir) || !ours(before) {
		return nil
	}
	root, err := os.OpenRoot(n.dir)
	if err != nil {
		return nil
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(before, now) {
		root.Close()
		return nil
	}
	return root
}

func ours(dir fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	return ok && dir.IsDir() && int(st.Uid) == os.Geteuid() && dir.Mode().Perm()&0o022 == 0
}
