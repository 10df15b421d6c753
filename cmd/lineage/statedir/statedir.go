//go:build unix

// Package statedir is the directory in which a program keeps what it needs after a restart: one program
// at a time, and each file is written as a whole or not at all.
package statedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// Dir is a state directory that this program has locked.
type Dir struct {
	path string
	lock *os.File
}

// newFile is what the name of a file ends in that is being written. Of each file only one is, so that errors
// are the same each time.
const newFile = ".new"

// Open locks a directory, and makes it if needed: two programs would overwrite each other's files. The names
// of files that the program writes end in one of the extensions.
func Open(path string, extensions ...string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("state directory %s: another process uses it", path)
	}
	if err := removeNew(path, extensions); err != nil {
		f.Close()
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	return &Dir{path, f}, nil
}

// removeNew removes what a program left that was killed while it wrote.
func removeNew(dir string, extensions []string) error {
	newName := regexp.MustCompile(`^[a-z0-9]+\.(` + strings.Join(extensions, "|") + `)` + regexp.QuoteMeta(newFile) + `$`)
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Type().IsRegular() && newName.MatchString(e.Name()) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Path is that of a file in the directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Close unlocks the directory.
func (d *Dir) Close() error { return d.lock.Close() }

// Replace writes a file as a whole, or leaves it as it was. The name is lower-case letters and digits, and
// an extension. The same file must not be replaced twice at the same time.
func (d *Dir) Replace(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(d.Path(name+newFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), d.Path(name))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write state: %w", err)
	}
	dir, err := os.Open(d.path) // else a crash of the host could bring the file back as it was
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
