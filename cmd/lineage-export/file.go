//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// fileSink appends a line for each event. A batch is on disk when Deliver returns. A program that renames the
// file, such as logrotate, need not send a signal: the next batch goes to a new file of the same name.
type fileSink struct {
	lines
	path string
	out  *os.File // nil: not open
}

// newFileSink opens the file. An error is one that the user has to fix.
func newFileSink(path string, encode follow.Encoder) (*fileSink, error) {
	s := &fileSink{lines: lines{encode: encode}, path: path}
	return s, s.open()
}

func (s *fileSink) Close() error {
	if s.out == nil {
		return nil
	}
	return s.out.Close()
}

// Deliver writes the events of a batch: all of them, or none on an error.
func (s *fileSink) Deliver(_ context.Context, batch []*follow.Record) error {
	before, added := int64(-1), int64(0) // the size of the file; -1: nothing was written
	err := s.write(batch, func(lines []byte) (err error) {
		if before < 0 {
			if before, err = s.begin(); err != nil {
				return err
			}
		}
		n, err := s.out.Write(lines)
		added += int64(n)
		return err
	})
	if before < 0 {
		return err
	}
	if err == nil {
		err = s.out.Sync()
	}
	if err == nil {
		return nil
	}
	if after, sought := s.out.Seek(0, io.SeekEnd); added > 0 && sought == nil && after == before+added {
		_ = s.out.Truncate(before) // if this fails, the next open ends a line that was cut off
	}
	s.drop()
	return fmt.Errorf("append to %s: %w", s.path, err)
}

// begin returns the size of the file that has the name now.
func (s *fileSink) begin() (int64, error) {
	if err := s.reopen(); err != nil {
		return -1, err
	}
	size, err := s.out.Seek(0, io.SeekEnd)
	if err != nil {
		return -1, fmt.Errorf("append to %s: %w", s.path, err)
	}
	return size, nil
}

func (s *fileSink) drop() {
	s.out.Close()
	s.out = nil
}

// reopen opens the file if it is not open, or another file has its name now.
func (s *fileSink) reopen() error {
	if s.out != nil {
		named, err := os.Lstat(s.path)
		open, err2 := s.out.Stat()
		if err == nil && err2 == nil && os.SameFile(named, open) {
			return nil
		}
		s.drop()
	}
	return s.open()
}

// open opens the file for appending, or makes it. A link, a pipe or a device, which another
// user could have put in its place, is refused.
func (s *fileSink) open() error {
	const flags = os.O_RDWR | os.O_APPEND | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	_, absent := os.Lstat(s.path)
	f, err := os.OpenFile(s.path, flags, 0o640)
	switch {
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("open %s: a symbolic link is not followed", s.path)
	case err != nil:
		return err // it names the path
	}
	if err := s.ready(f, errors.Is(absent, fs.ErrNotExist)); err != nil {
		f.Close()
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	s.out = f
	return nil
}

// ready checks a file that was opened, takes its lock, and ends a line that a crash cut off.
func (s *fileSink) ready(f *os.File, made bool) error {
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another exporter writes to it")
	}
	if made {
		if err := follow.SyncDir(filepath.Dir(s.path)); err != nil {
			return err
		}
	}
	last := make([]byte, 1)
	if st.Size() == 0 {
		return nil
	}
	if _, err := f.ReadAt(last, st.Size()-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err = f.Write([]byte("\n"))
	}
	return err
}
