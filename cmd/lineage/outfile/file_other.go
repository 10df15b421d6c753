//go:build !linux

package outfile

import (
	"errors"
	"os"
	"path/filepath"
)

// File is a file to be written.
type File struct{ name string }

// Open remembers the name.
func Open(name string, _ *User) (*File, error) { return &File{name}, nil }

// Create makes a new file in the same directory.
func (f *File) Create() (*os.File, error) { return os.CreateTemp(filepath.Dir(f.name), ".lineage-*") }

// Publish renames the file from Create to the name, or removes it if failed is not nil.
func (f *File) Publish(out *os.File, failed error) error {
	err := errors.Join(failed, out.Close())
	if err == nil {
		err = os.Rename(out.Name(), f.name)
	}
	if err != nil {
		_ = os.Remove(out.Name())
	}
	return err
}
