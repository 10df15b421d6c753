//go:build linux

package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer/procfs"
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

// maxLinks is how many symbolic links a path may have, as for the kernel.
const maxLinks = 40

// OpenRootsFile opens a file for reading that only root can have written and chosen: it, and each directory and
// symbolic link on the way, is root's, and others may not write to it. So it does not change while it is walked.
func OpenRootsFile(path string) (*os.File, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = walk(path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // of a FIFO it must not wait
	if err != nil {
		return nil, err
	}
	if err := CheckRoots(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func walk(path string) (string, error) {
	at, todo, shared := "/", strings.Split(path, "/"), uint64(0) // shared: the device of a directory in which others may make files
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name)
		var st unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return "", &os.PathError{Op: "open", Path: next, Err: err}
		}
		mode := st.Mode & unix.S_IFMT
		if mode != unix.S_IFDIR && mode != unix.S_IFLNK {
			return filepath.Join(append([]string{next}, todo...)...), nil // the last one, or its open fails
		}
		if !procfs.Ours(st.Uid) {
			return "", fmt.Errorf("%s on the way to it belongs to uid %d; move the file to a directory of root's",
				next, st.Uid)
		}
		if shared != 0 && st.Dev != shared { // a user's mount, which may call anything root's
			return "", fmt.Errorf("%s on the way to it is a mount in a directory to which others may write", next)
		}
		if mode == unix.S_IFLNK {
			target, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return "", errors.Join(fmt.Errorf("%s cannot be followed", next), err)
			}
			if filepath.IsAbs(target) {
				at, shared = "/", 0
			}
			todo = append(strings.Split(target, "/"), todo...)
			continue
		}
		if shared = 0; st.Mode&0o022 != 0 {
			if st.Mode&unix.S_ISVTX == 0 {
				return "", fmt.Errorf("users other than root may write to %s on the way to it; run chmod go-w on it", next)
			}
			shared = st.Dev
		}
		at = next
	}
	return at, nil
}

// CheckRoots returns an error unless only root can have written a file. Those of procfs say what processes chose.
func CheckRoots(f *os.File) error {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstatfs(int(f.Fd()), &fs)); err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a regular file")
	case fs.Type == unix.PROC_SUPER_MAGIC:
		return errors.New("it is a file of procfs")
	case !procfs.Ours(st.Uid):
		return fmt.Errorf("it belongs to uid %d; run chown root on it", st.Uid)
	case st.Mode&0o022 != 0:
		return errors.New("users other than root may write to it; run chmod go-w on it")
	}
	return nil
}
