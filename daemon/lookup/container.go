//go:build linux

package lookup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

const (
	ContainerdShim = "containerd-shim"

	maxDepth = 64   // ancestors within one container
	maxKnown = 1024 // containers
	// maxUnread is how many of them are told whose record cannot be read.
	maxUnread = 4
	// fresh is how long a record is used without reading it again: a container may get another name.
	fresh = 30 * time.Second
)

// ContainerFinder finds containers. Any goroutine may use it.
type ContainerFinder struct {
	proc  procfs.FS
	log   zerolog.Logger
	mu    sync.Mutex
	known map[lives]known
	// unread are containers of root's supervisors whose record cannot be read, and why.
	unread map[lives]error
}

// lives is a container while its supervisor runs: containerd's shim, or conmon.
type lives struct {
	id    string
	pid   uint32
	start uint64
}

type known struct {
	FoundContainer
	read time.Time
}

// FoundContainer is a container, nil: none, and what its specification says.
type FoundContainer struct {
	Container   *lineage.Container
	Env, Labels []string // NAME=VALUE, as the engine was told
	Main        uint32   // its main process, set by Entered
}

func NewContainerFinder(proc procfs.FS, log zerolog.Logger) *ContainerFinder {
	return &ContainerFinder{proc: proc, log: log, known: make(map[lives]known),
		unread: make(map[lives]error)}
}

// Of returns the container of a process, nil if it is in none. What cannot be read or does not fit is left out. near is
// the container that the process was in, nil if that is not known; it is returned if the process cannot be read.
func (f *ContainerFinder) Of(pid uint32, near *lineage.Container) *lineage.Container {
	id, runtime, err := f.id(pid)
	switch {
	case err != nil:
		return near
	case id == "":
		return nil
	case near != nil && near.ID == id && near.Name != "":
		return near
	}
	found, err := f.find(pid, id, runtime)
	switch {
	case err != nil:
		f.log.Debug().Err(err).Uint32(system.KeyPID, pid).
			Str(system.KeyContainer, id).Msg("container without a name")
		fallthrough
	case found.Container == nil:
		if near != nil && near.ID == id {
			return near
		}
		return &lineage.Container{ID: id, Runtime: runtime}
	}
	return found.Container
}

func (f *ContainerFinder) Look(pid uint32) (FoundContainer, error) {
	id, runtime, err := f.id(pid)
	if err != nil || id == "" {
		return FoundContainer{}, err
	}
	return f.find(pid, id, runtime)
}

// Unread says of which containers that exist no record can be read, and why.
func (f *ContainerFinder) Unread() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, err := range f.unread {
		if stat, gone := f.proc.Stat(key.pid); gone != nil || stat.Start != key.start {
			delete(f.unread, key)
			continue
		}
		all = append(all, fmt.Sprintf("no rule for containers applies to %.12s: %v", key.id, err))
	}
	slices.Sort(all)
	return all[:min(len(all), maxUnread)]
}

func (f *ContainerFinder) id(pid uint32) (id, runtime string, err error) {
	b, err := f.proc.Read(pid, "cgroup", procfs.MaxFile)
	if err != nil {
		return "", "", err
	}
	id, runtime = ContainerIDOf(string(b))
	return id, runtime, nil
}

var errMoved = errors.New("the processes changed meanwhile")

// find reads what the runtime has on record, which may be nothing.
func (f *ContainerFinder) find(pid uint32, id, runtime string) (found FoundContainer, err error) {
	by, inside := f.supervisor(pid, id)
	if by.pid <= 1 {
		return FoundContainer{}, nil
	}
	return f.recorded(by, inside, runtime)
}

// recorded reads what the runtime has on record of the container of a supervisor that was found, and that may have
// given its PID away since.
func (f *ContainerFinder) recorded(by lives, inside uint32,
	runtime string) (found FoundContainer, err error) {
	f.mu.Lock()
	was := f.known[by]
	f.mu.Unlock()
	if err := f.serves(by.pid, inside, by.id); err != nil {
		return FoundContainer{}, err
	}
	if was.Container != nil && time.Since(was.read) < fresh && was.Container.Name != "" {
		return was.FoundContainer, nil
	}
	found, err = f.read(by.pid, &lineage.Container{ID: by.id, Runtime: runtime})
	if now, again := f.proc.Stat(by.pid); again != nil || now.Start != by.start {
		return FoundContainer{}, errMoved
	}
	f.noteUnread(by, err)
	if err != nil {
		return FoundContainer{}, err
	}
	if was.Container != nil && *was.Container == *found.Container {
		found.Container = was.Container
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= maxKnown {
		clear(f.known)
	}
	f.known[by] = known{found, time.Now()}
	return found, nil
}

func (f *ContainerFinder) noteUnread(key lives, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		delete(f.unread, key)
	case len(f.unread) < maxKnown:
		f.unread[key] = err
	}
}

// supervisor walks from a process in a container to the first ancestor outside it: its shim or conmon. inside is the
// last one that is in it. In a shared PID namespace an orphan's parent may be in another container: that is passed over.
func (f *ContainerFinder) supervisor(pid uint32, id string) (by lives, inside uint32) {
	inside = pid
	stat, err := f.proc.Stat(pid)
	for range maxDepth {
		if err != nil || stat.Parent <= 1 {
			return lives{}, 0
		}
		pid = stat.Parent
		stat, err = f.proc.Stat(pid)
		switch above, _, err := f.id(pid); {
		case err != nil:
			return lives{}, 0
		case above == id:
			inside = pid
		case above == "" || f.proc.Comm(pid) == ContainerdShim || f.conmon(pid):
			return lives{id, pid, stat.Start}, inside
		}
	}
	return lives{}, 0
}

var (
	errUser  = errors.New("its supervisor is not root's")
	errOther = errors.New("its supervisor has another container")
)

// serves checks that a supervisor has the container. One shim may have a whole pod, and its working directory is
// then the sandbox's: the main process that it has noted for the container must be in the PID namespace of the process
// that is inside. A process may make cgroups, and names them as it likes.
func (f *ContainerFinder) serves(supervisor, inside uint32, id string) error {
	st, err := f.proc.Status(supervisor)
	if err != nil {
		return err
	}
	for _, uid := range st.UIDs {
		if !procfs.Ours(uid) {
			return errUser
		}
	}
	if name := procfs.Base(f.proc.Link(supervisor, "cwd")); name == id || f.conmon(supervisor) {
		return nil
	}
	main, err := f.main(supervisor, id)
	if err != nil {
		return err
	}
	same, err := f.together(main, inside)
	if err != nil {
		return err
	}
	if in, err := f.group(main, id); err != nil || !same || in == "" {
		return errOther
	} else if its, err := f.group(inside, id); err != nil || its != in {
		return errOther
	}
	return nil
}

// group is what the cgroup that has a container's id is in, "" if the process is not in that container.
func (f *ContainerFinder) group(pid uint32, id string) (string, error) {
	b, err := f.proc.Read(pid, "cgroup", procfs.MaxFile)
	if err != nil {
		return "", err
	}
	if in, _ := ContainerIDOf(string(b)); in != id {
		return "", nil
	}
	for line := range strings.Lines(string(b)) {
		if in, _, ok := strings.Cut(line, id); ok {
			return in, nil
		}
	}
	return "", nil
}

// together reports whether two processes are in the same PID namespace.
func (f *ContainerFinder) together(one, other uint32) (bool, error) {
	a, err := f.proc.PIDNamespace(one)
	if err != nil {
		return false, err
	}
	b, err := f.proc.PIDNamespace(other)
	return err == nil && a == b, err
}

// main is the main process that a shim has noted for a container.
func (f *ContainerFinder) main(shim uint32, id string) (uint32, error) {
	b, err := readRoots(f.proc.Key(shim), f.bundle(shim, id)+"/init.pid", 32)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0, errOther
	}
	return uint32(pid), nil
}

// bundle is the directory of a container's bundle, by the link that leads there also from another mount namespace. It is
// not to be cleaned: the link's target is not known.
func (f *ContainerFinder) bundle(shim uint32, id string) string {
	return f.proc.Path(shim, "cwd") + "/../" + id
}

// conmon reports whether a supervisor is podman's or CRI-O's.
func (f *ContainerFinder) conmon(pid uint32) bool { return f.proc.Comm(pid) == "conmon" }
