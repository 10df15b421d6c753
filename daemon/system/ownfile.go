//go:build linux

package system

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenFile opens a regular file with one name; if it makes the file, with mode 0600. What is there could be
// a link to another file, or a FIFO, whose open would wait for a reader. Errors name the path.
func OpenFile(path string, flags int) (*os.File, error) { return open(path, flags, regular) }

// TakeFile is Open for a file that no other user may use: it must belong to our uid, and gets mode 0600.
func TakeFile(path string, flags int) (*os.File, error) { return open(path, flags, private) }

func open(path string, flags int, check func(*os.File, *unix.Stat_t) error) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		err = check(f, &st)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}

func regular(_ *os.File, st *unix.Stat_t) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a regular file")
	case st.Nlink > 1: // one that is being removed has none
		return fmt.Errorf("it has %d hard links", st.Nlink)
	}
	return nil
}

func private(f *os.File, st *unix.Stat_t) error {
	if err := regular(f, st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		return errors.New("it was removed meanwhile")
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to uid %d", st.Uid)
	}
	if st.Mode&0o777 == 0o600 {
		return nil
	}
	return f.Chmod(0o600)
}
