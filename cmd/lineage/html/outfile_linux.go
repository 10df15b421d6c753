package html

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OutFile is a file to be written. It is never closed if it was open already: a write may
// still be waiting for a reader when the process exits.
type OutFile struct {
	who *User    // the user that writes it; nil: ours
	out *os.File // open already; nil: a regular file is made in dir

	dir       int // O_PATH
	base, tmp string
}

// OpenFile opens what is needed to write to name with the rights of who; nil: with our own.
func OpenFile(name string, who *User) (*OutFile, error) {
	if fd, ok := ownDescriptor(name); ok {
		return duplicate(fd)
	}
	f := &OutFile{who: who, base: filepath.Base(name), tmp: ".lineage-" + rand.Text()}
	if strings.HasSuffix(name, "/") || f.base == "." || f.base == ".." {
		return nil, unix.EISDIR
	}
	return f, as(who, func() error { return f.open(filepath.Dir(name)) })
}

// open is Open with the rights of who.
func (f *OutFile) open(dir string) (err error) {
	if f.dir, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstatat(f.dir, f.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		st.Mode, err = unix.S_IFREG, nil
	}
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return unix.Faccessat(f.dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	case unix.S_IFIFO, unix.S_IFCHR:
		return f.openSpecial()
	case unix.S_IFDIR:
		return unix.EISDIR
	case unix.S_IFLNK:
		return errors.New("it is a symbolic link; name the file itself")
	}
	return errors.New("it is neither a regular file nor a FIFO, terminal or other character device")
}

// openSpecial opens a FIFO or a device as it is now. Without O_NONBLOCK a FIFO without
// a reader would block us here.
func (f *OutFile) openSpecial() error {
	fd, err := unix.Openat(f.dir, f.base,
		unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENXIO) {
		return errors.New("nothing reads from it")
	}
	if err != nil {
		return err
	}
	f.out = os.NewFile(uintptr(fd), f.base)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFCHR {
		return errors.New("it was replaced while it was opened")
	}
	return nil
}

// ownDescriptor reports whether name is a descriptor that we inherited, as shells name
// them. Opening it again would need rights to its file, and a socket cannot be opened
// at all.
func ownDescriptor(name string) (fd int, ok bool) {
	switch name {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(name, dir); found {
			if fd, err := strconv.Atoi(number); err == nil {
				return fd, true
			}
			return -1, true
		}
	}
	return 0, false
}

// duplicate handles a descriptor that we inherited. The command has it too, and may
// write to it whatever user it runs as.
func duplicate(fd int) (*OutFile, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 { // one of our own
		return nil, unix.EBADF
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, unix.EBADF
	}
	fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &OutFile{out: os.NewFile(uintptr(fd), "descriptor")}, nil
}

// Write writes the file, so that a reader of a regular one sees all of it or nothing: it is a new one in the same
// directory until then, and whatever has the name by then is replaced, never opened. It may block while no process
// reads the other end of a FIFO.
func (f *OutFile) Write(write func(io.Writer) error) error {
	if f.out != nil {
		return write(f.out)
	}
	var out *os.File
	err := as(f.who, func() error {
		fd, err := unix.Openat(f.dir, f.tmp,
			unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
		out = os.NewFile(uintptr(fd), f.base)
		return err
	})
	if err != nil {
		return err
	}
	failed := write(out)
	return as(f.who, func() error {
		err := errors.Join(failed, out.Close())
		if err == nil {
			err = unix.Renameat(f.dir, f.tmp, f.dir, f.base)
		}
		if err != nil {
			_ = unix.Unlinkat(f.dir, f.tmp, 0)
		}
		return err
	})
}

// as calls f with the file rights of who, and without capabilities over files: the
// kernel drops those in a thread whose fsuid is not 0. The thread runs nothing else and
// ends with its goroutine.
func as(who *User, f func() error) error {
	if who == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := borrow(who)
		if err != nil {
			err = fmt.Errorf("become user %s: %w", who.Name, err)
		} else {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// borrow gives only the calling thread the file rights of who: the wrappers of package
// unix would change all threads. Our other ids stay root's, so that this user cannot
// signal or trace us meanwhile.
func borrow(who *User) error {
	groups := make([]uint32, len(who.Groups)+1)
	for i, gid := range who.Groups {
		groups[i] = uint32(gid)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(who.Groups)),
		uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return errno
	}
	// setfsgid(2) and setfsuid(2) do not fail, they return the previous id.
	if _, err := unix.SetfsgidRetGid(who.GID); err != nil {
		return err
	}
	if now, err := unix.SetfsgidRetGid(-1); err != nil || now != who.GID {
		return unix.EPERM
	}
	if _, err := unix.SetfsuidRetUid(who.UID); err != nil {
		return err
	}
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != who.UID {
		return unix.EPERM
	}
	return nil
}
