//go:build linux

package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// bare is the Maker of hosts without systemd: it makes directories, and writes limits into their files.
type bare struct {
	mount string // of cgroup v2
	proc  procfs.FS
}

// New returns a Maker that writes below this mount of cgroup v2, which nobody else manages.
func New(mount string) Maker { return &bare{mount, "/proc"} }

// members is the leaf.
const members = "members"

const (
	swapMax = "memory.swap.max"
	period  = 100 * time.Millisecond // of cpu.max
)

// knobs are the limits, by the file that has each.
var knobs = []struct {
	controller, file, none string                   // none: what the file says without a limit
	of                     func(*api.Limits) string // what to write; "": no limit
	clear                  func(*api.Limits)
}{
	{"memory", "memory.max", "max", func(l *api.Limits) string { return positive(l.MemoryBytes) },
		func(l *api.Limits) { l.MemoryBytes = 0 }},
	// A host with swap would swap first. Without swap there may be no such file.
	{"memory", swapMax, "max", func(l *api.Limits) string {
		if l.MemoryBytes <= 0 {
			return ""
		}
		return "0"
	}, func(*api.Limits) {}},
	{"memory", "memory.high", "max", func(l *api.Limits) string { return positive(l.MemoryHighBytes) },
		func(l *api.Limits) { l.MemoryHighBytes = 0 }},
	{"cpu", "cpu.max", "max", quota, func(l *api.Limits) { l.CPUs = 0 }},
	{"pids", "pids.max", "max", func(l *api.Limits) string { return positive(int64(l.Tasks)) },
		func(l *api.Limits) { l.Tasks = 0 }},
	{"io", "io.weight", "default 100", func(l *api.Limits) string { return positive(int64(l.IOWeight)) },
		func(l *api.Limits) { l.IOWeight = 0 }},
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func quota(l *api.Limits) string {
	if l.CPUs <= 0 {
		return ""
	}
	// The kernel takes no less than 1 ms.
	us := max(int64(l.CPUs*float64(period.Microseconds())), time.Millisecond.Microseconds())
	return fmt.Sprintf("%d %d", us, period.Microseconds())
}

// Make makes both directories below the cgroup of the root, or beside the leaf that it is in.
func (b *bare) Make(root tracer.Identity, l *api.Limits) (group string, err error) {
	parent, err := b.above(root)
	if err != nil {
		return "", err
	}
	if err := b.allow(parent, root.PID, l); err != nil {
		return "", err
	}
	group = filepath.Join(parent, nameOf(root))
	err = b.mkdir(group)
	if err == nil {
		err = b.Set(group, l)
	}
	if err == nil {
		err = b.mkdir(filepath.Join(group, members))
	}
	if err == nil {
		err = b.Move(group, root)
	}
	if err != nil {
		return "", errors.Join(err, b.Remove(group))
	}
	return group, nil
}

// mkdir makes a directory. That of the mount has the mode 0555, and the daemon no capability to pass that over.
func (b *bare) mkdir(dir string) error {
	path := filepath.Join(b.mount, dir)
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(filepath.Dir(path), 0o755) == nil {
		err = os.Mkdir(path, 0o755)
	}
	return err
}

// above returns the cgroup in which the group of a root belongs. Who owns one above it could undo limits.
func (b *bare) above(root tracer.Identity) (string, error) {
	path, err := cgroupOf(b.proc, root)
	if err != nil {
		return "", err
	}
	if path == "" || strings.Contains(path, "/..") {
		return "", fmt.Errorf("the cgroup of pid %d is not below %s", root.PID, b.mount)
	}
	if outer, leaf := filepath.Split(path); leaf == members {
		if id, ours := rootOf(filepath.Base(outer)); ours {
			if path = filepath.Clean(outer); id == root {
				return "", fmt.Errorf("pid %d is the root of a session with limits", root.PID)
			}
		}
	}
	for dir := range upTo(path) {
		if !owned(b.mount, dir) {
			return "", fmt.Errorf("the cgroup %s of pid %d is not only root's: it is not used for limits",
				dir, root.PID)
		}
	}
	return path, nil
}

// cgroupOf returns the cgroup that a process is in. Its PID may be another's by now.
func cgroupOf(proc procfs.FS, p tracer.Identity) (string, error) {
	path := proc.Cgroup(p.PID)
	if st, err := proc.Stat(p.PID); err != nil || st.Start != p.Start/uint64(procfs.Tick) {
		return "", fmt.Errorf("process %d has exited", p.PID)
	}
	return path, nil
}

// owned reports whether a cgroup is root's, and nobody else may write there.
func owned(mount, dir string) bool {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(mount, dir), &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Uid == 0 && st.Mode&0o022 == 0
}

// upTo yields the cgroups from the mount down to path.
func upTo(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i, c := range path + "/" {
			if dir := path[:i]; c == '/' && (i == 0 || dir != "/") &&
				!yield("/"+strings.TrimPrefix(dir, "/")) {
				return
			}
		}
	}
}

// allow has the controllers handed out that the limits need, and those that only count, if possible.
func (b *bare) allow(parent string, pid uint32, l *api.Limits) error {
	why := make(map[string]error)
	for _, c := range []string{"memory", "pids", "io"} {
		why[c] = b.handOut(parent, pid, c)
	}
	if l.CPUs > 0 { // the controller costs all that is in the hierarchy something
		why["cpu"] = b.handOut(parent, pid, "cpu")
	}
	return possible(l, func(c string) error { return why[c] })
}

// possible fails if a limit lacks its controller, or takes it out of l, with the reason, if that is asked for.
func possible(l *api.Limits, lacks func(string) error) error {
	for _, k := range knobs {
		switch err := lacks(k.controller); {
		case k.of(l) == "" || err == nil:
		case !l.IfPossible:
			return err
		default:
			unset(l, k.clear, err)
		}
	}
	return nil
}

func onHost(mount, controller string) error {
	if !slices.Contains(strings.Fields(value(mount, "/", "cgroup.controllers")), controller) {
		return fmt.Errorf("this host's cgroup v2 has no %s controller", controller)
	}
	return nil
}

func unset(l *api.Limits, clear func(*api.Limits), why error) {
	clear(l)
	if !slices.Contains(l.Unset, why.Error()) {
		l.Unset = append(l.Unset, why.Error())
	}
}

// handOut has a controller handed out to the children of a cgroup.
func (b *bare) handOut(parent string, pid uint32, controller string) error {
	if err := onHost(b.mount, controller); err != nil {
		return err
	}
	for dir := range upTo(parent) {
		if slices.Contains(strings.Fields(value(b.mount, dir, "cgroup.subtree_control")), controller) {
			continue
		}
		if err := b.write(dir, "cgroup.subtree_control", "+"+controller); err != nil {
			none := fmt.Errorf("the cgroup %s of pid %d hands out no %s controller", dir, pid, controller)
			if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT) { // it has processes, or has not got it
				return none
			}
			return fmt.Errorf("%w: %w", none, err)
		}
	}
	return nil
}

// Move writes the PIDs into the leaf's list.
func (b *bare) Move(group string, all ...tracer.Identity) (err error) {
	for _, p := range all {
		if _, gone := cgroupOf(b.proc, p); gone != nil {
			continue
		}
		failed := b.write(filepath.Join(group, members), "cgroup.procs", fmt.Sprint(p.PID))
		if !errors.Is(failed, unix.ESRCH) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Set writes all limits.
func (b *bare) Set(group string, l *api.Limits) error {
	for _, k := range knobs {
		text := k.of(l)
		err := b.write(group, k.file, cmp.Or(text, k.none))
		missing := errors.Is(err, fs.ErrNotExist)
		switch {
		case err == nil || missing && (text == "" || k.file == swapMax):
		case missing && l.IfPossible:
			unset(l, k.clear, fmt.Errorf("this kernel has no %s", k.file))
		case missing:
			return fmt.Errorf("this kernel has no %s", k.file)
		default:
			return fmt.Errorf("%s: %w", k.file, err)
		}
	}
	return nil
}

// Freeze needs no controller (Linux 5.2).
func (b *bare) Freeze(group string, frozen bool) error {
	return b.write(group, "cgroup.freeze", map[bool]string{false: "0", true: "1"}[frozen])
}

// Remove removes the directories. Nothing that has processes goes.
func (b *bare) Remove(group string) error {
	for _, dir := range []string{filepath.Join(group, members), group} {
		if err := unix.Rmdir(filepath.Join(b.mount, dir)); err != nil && err != unix.ENOENT {
			return fmt.Errorf("remove the cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// value is the content of a file, "" if there is none.
func value(mount, dir, file string) string {
	text, _ := os.ReadFile(filepath.Join(mount, dir, file)) // without its controller it does not exist
	return strings.TrimSpace(string(text))
}

func (b *bare) write(dir, file, text string) error {
	f, err := os.OpenFile(filepath.Join(b.mount, dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
