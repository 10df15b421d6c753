package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

var errLink = errors.New("symbolic link")

// read returns a file that a setup may change; nil if it does not exist. It refuses files
// that others may depend on: links, and files of other users.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a %w", path, errLink)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case ok && int(st.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to uid %d, not to you", path, st.Uid)
	case ok && st.Nlink > 1:
		return nil, fmt.Errorf("%s has %d hard links", path, st.Nlink)
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err == nil && text == nil {
		text = []byte{}
	}
	return text, err
}

// Write applies the change: all of it, or nothing.
func (c *Change) Write() error {
	now, err := read(c.Path)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.before) {
		return fmt.Errorf("%s has changed meanwhile", c.Path)
	}
	if c.after == nil {
		return os.Remove(c.Path)
	}
	dir := filepath.Dir(c.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Lstat(c.Path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(dir, ".lineage-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // already renamed if all went well
	_, err = f.Write(c.after)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.Path)
}
