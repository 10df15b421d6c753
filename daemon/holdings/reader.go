//go:build linux

package holdings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Bounds of one call.
const (
	maxDescriptors = 1 << 18 // looked at
	maxThreads     = 4096    // of one process whose own table is checked
	maxFound       = 4096    // ports, and locks, that are named
	maxWaiting     = 64      // processes that wait for one lock, and notes of what could not be read
	maxNamespaces  = 64      // network or mount namespaces that are read
	maxTable       = 16 << 20
	chunk          = 1024
)

var (
	// errOther: the PID belongs to another process than expected, or to none.
	errOther      = errors.New("another process")
	errOtherSpace = errors.New("the process is in another network namespace now")
	errTime       = errors.New("the time for the search was over, try again")
	errMany       = errors.New("too many descriptors")
)

// Reader reads procfs. Its methods may be called from any goroutine.
type Reader struct {
	Root     string
	Identify func(pid uint32) (tracer.Identity, error)

	// sameFiles reports whether two threads share their descriptors; tests replace
	// kcmp(2).
	sameFiles func(a, b int) (bool, error)

	only []string // the PIDs that host visits; nil: all

	elsewhere atomic.Int64 // see CPUElsewhere
}

func NewReader(root string, identify func(uint32) (tracer.Identity, error)) *Reader {
	return &Reader{Root: root, Identify: identify, sameFiles: kcmpFiles}
}

// kcmpFiles calls kcmp(2), which needs CONFIG_KCMP and the right to trace both.
func kcmpFiles(a, b int) (bool, error) {
	const files = 2 // KCMP_FILES
	n, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), files, 0, 0, 0)
	if errno != 0 {
		return false, errno
	}
	return n == 0, nil
}

// process is a handle on the directory of one process. Once that process is reaped
// every read through it fails, even if the PID is reused.
type process struct {
	dir  int
	pid  uint32
	path string
	r    *Reader

	bounded bool // its reader is in a bounded read already
}

func (r *Reader) open(pid uint32) (*process, error) {
	path := procfs.FS(r.Root).Path(pid, "")
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &process{dir: dir, pid: pid, path: path, r: r}, nil
}

func (p *process) close() { unix.Close(p.dir) }

// openAs opens the process that id names. The process was alive before the directory
// was opened and still is, so the directory belongs to it.
func (r *Reader) openAs(id tracer.Identity) (*process, error) {
	p, err := r.open(id.PID)
	if err != nil {
		return nil, err
	}
	now, err := r.Identify(id.PID)
	if err == nil && now != id {
		err = errOther
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// openIn is openAs for a process that lives in a network namespace.
func (r *Reader) openIn(netns uint64, id tracer.Identity) (*process, error) {
	p, err := r.openAs(id)
	if err != nil {
		return nil, err
	}
	now, err := p.namespace("net")
	if err == nil && now == netns {
		return p, nil
	}
	if err == nil {
		err = errOtherSpace
	} else if p.left(err) {
		err = errOther
	}
	p.close()
	return nil, err
}

// identity identifies the process behind the handle: the process that has the PID now,
// if the handle still works after that.
func (r *Reader) identity(p *process) (tracer.Identity, error) {
	id, err := r.Identify(p.pid)
	if err == nil {
		var st unix.Stat_t
		err = unix.Fstatat(p.dir, "stat", &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return id, err
}

func (p *process) link(name string) (string, error) {
	to, err := p.links(p.dir, name)
	if err == nil && to[0] == "" {
		err = unix.ENOENT
	}
	if err != nil {
		return "", err
	}
	return to[0], nil
}

// links reads links below a directory of the process, "" for one that is gone. What continues after
// [procfs.ErrStuck] may read through a descriptor that was closed, and used again: that result is dropped.
func (p *process) links(dir int, names ...string) ([]string, error) {
	return bounded(p, func() (to []string, err error) {
		for _, name := range names {
			link, err := readlink(dir, name)
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return nil, err
			}
			to = append(to, link)
		}
		return to, nil
	})
}

func readlink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// namespace returns the inode number of one of the namespaces, "net" or "mnt".
func (p *process) namespace(name string) (uint64, error) {
	link, err := p.link("ns/" + name)
	if err != nil {
		return 0, err
	}
	n, ok := bracketed(link, name)
	if !ok {
		return 0, fmt.Errorf("namespace %q: %w", link, errMalformed)
	}
	return n, nil
}

var errMalformed = errors.New("malformed")

func bracketed(link, kind string) (uint64, bool) {
	text, ok := strings.CutPrefix(link, kind+":[")
	if !ok {
		return 0, false
	}
	text, ok = strings.CutSuffix(text, "]")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, ok && err == nil
}

func (p *process) file(name string) (*os.File, error) { return openAt(p.dir, name, 0) }

func openAt(dir int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// tables names the directories that hold a distinct descriptor table: the process's
// own, and that of every thread that does not share one before it. The leader of a
// process whose main thread has exited has none.
func (r *Reader) tables(ctx context.Context, p *process) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(p.dir, "task", &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	if st.Nlink == 3 {
		return []string{"."}, nil // ".", ".." and the leader
	}
	d, err := openAt(p.dir, "task", unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	tids, err := d.Readdirnames(maxThreads + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(tids)
	return bounded(p, func() ([]string, error) { return r.distinct(ctx, p, tids) })
}

// distinct compares the descriptor tables of threads.
func (r *Reader) distinct(ctx context.Context, p *process, tids []string) ([]string, error) {
	all := []string{"."}
	distinct := []int{int(p.pid)}
	for _, name := range tids {
		if ctx.Err() != nil {
			return all, errTime // each thread is compared with all tables found so far
		}
		tid, err := strconv.Atoi(name)
		if err != nil || tid == int(p.pid) {
			continue
		}
		if slices.ContainsFunc(distinct, func(other int) bool {
			same, err := r.sameFiles(other, tid)
			return err == nil && same
		}) {
			continue
		}
		distinct = append(distinct, tid)
		all = append(all, "task/"+name)
	}
	if len(tids) > maxThreads {
		return all, errMany
	}
	return all, nil
}

// gone reports whether a read error means that the process no longer exists.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, errOther) ||
		errors.Is(err, tracer.ErrNotFound)
}

// left reports whether an error of a read through the handle means that the process no
// longer exists, whatever error procfs returned.
func (p *process) left(err error) bool {
	var st unix.Stat_t
	return err != nil && (gone(err) || unix.Fstatat(p.dir, "stat", &st, unix.AT_SYMLINK_NOFOLLOW) != nil)
}

func denied(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// hiddenError names processes that may not be read, for example because they have
// capabilities that we lack.
type hiddenError []uint32

func (h hiddenError) Error() string {
	if len(h) > 8 {
		return fmt.Sprintf("open files of %d processes could not be read", len(h))
	}
	pids := strings.Trim(fmt.Sprint([]uint32(h)), "[]")
	return "open files of PID " + strings.ReplaceAll(pids, " ", ", PID ") + " could not be read"
}

// host calls each for every process that procfs lists, until ctx is done or each fails.
// A process that dies meanwhile is skipped; one that may not be read is part of the
// error at the end.
func (r *Reader) host(ctx context.Context, each func(*process) error) error {
	var hidden []uint32
	d, err := os.Open(r.Root)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := r.only, io.EOF
		if names == nil {
			names, err = d.Readdirnames(chunk)
		}
		for _, name := range names {
			pid, err := strconv.ParseUint(name, 10, 32)
			if err != nil {
				continue
			}
			if ctx.Err() != nil {
				return errTime
			}
			p, err := r.open(uint32(pid))
			if err != nil {
				continue // it died, or hidepid hides it
			}
			err = each(p)
			over := p.left(err)
			p.close()
			switch {
			case err == nil || over:
			case denied(err), errors.Is(err, procfs.ErrStuck):
				hidden = append(hidden, p.pid)
			default:
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(hidden) > 0 {
		return hiddenError(hidden)
	}
	return nil
}

// CPUElsewhere is the CPU time that was used in other threads than the callers'.
func (r *Reader) CPUElsewhere() time.Duration { return time.Duration(r.elsewhere.Load()) }

// countCPU counts the CPU time of this goroutine until what it returns is called.
func (r *Reader) countCPU() func() {
	runtime.LockOSThread()
	began := system.ThreadTime()
	return func() {
		r.elsewhere.Add(int64(system.ThreadTime() - began))
		runtime.UnlockOSThread()
	}
}

func bounded[T any](p *process, read func() (T, error)) (T, error) {
	if p.bounded {
		return read()
	}
	return procfs.Bounded(procfs.KeyOf(p.path), func() (T, error) {
		defer p.r.countCPU()()
		return read()
	})
}
