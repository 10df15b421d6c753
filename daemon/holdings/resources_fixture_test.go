//go:build linux

package holdings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// tree writes a procfs: a value that begins with "->" is a link.
func tree(t *testing.T, files map[string]string) *Reader {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		var err error
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		require.NoError(t, err)
	}
	r := NewReader(root, identifyIn(root))
	r.sameFiles = func(int, int) (bool, error) { return false, nil }
	return r
}

const header = "  sl  local_address ...\n"

func stat(pid, start int) string {
	return fmt.Sprintf("%d (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0", pid, start)
}

// server is PID 10, which listens on 631, holds a flock that 77 waits for, an
// index.lock, and a socket that is in no table.
func server() map[string]string {
	return map[string]string{
		"locks": "1: FLOCK  ADVISORY  WRITE 5 fe:00:3 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 77 fe:00:3 0 EOF\n" +
			"1:  -> FLOCK  ADVISORY  WRITE 78 fe:00:3 0 EOF\n2: ACCESS x\n2: -> FLOCK  ADVISORY  WRITE 79 fe:00:3 0 EOF\n",
		"10/stat":      stat(10, 100),
		"10/task/10/x": "",
		"10/ns/net":    "->net:[42]",
		"10/fd/1":      "->pipe:[9]",
		"10/fd/3":      "->socket:[12345]",
		"10/fd/4":      "->/data/db",
		"10/fdinfo/4":  "pos:\t0\nflags:\t0100002\nmnt_id:\t29\nino:\t3\nlock:\t1: FLOCK  ADVISORY  WRITE 5 fe:00:3 0 EOF\n",
		"10/fd/5":      "->/repo/.git/index.lock",
		"10/fdinfo/5":  "pos:\t0\nflags:\t0100001\n",
		"10/fd/6":      "->socket:[4]",
		"10/net/tcp":   header + socketLines[0] + "\n",
		"10/net/udp":   header,
	}
}

var ten = []tracer.Identity{{PID: 10, Start: 100}}

// TestPrivateNetwork: the host's sockets are found by a reader that has a network
// namespace of its own, also those that a process in a third one holds.
func TestPrivateNetwork(t *testing.T) {
	files := server()
	files["self/ns/net"], files["1/ns/net"], files["10/ns/net"] = "->net:[7]", "->net:[42]", "->net:[50]"
	files["1/net/tcp"], files["self/net/tcp"], files["10/net/tcp"] = files["10/net/tcp"], header, header
	files["1/net/unix"] = "Num RefCount Protocol Flags Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 4 /run/s\n"
	files["1/stat"], files["1/task/1/x"] = stat(1, 1), ""
	r := tree(t, files)
	h := r.Of(t.Context(), ten)
	slices.SortFunc(h.Ports, ComparePorts)
	if len(h.Unknown) != 0 || len(h.Ports) != 2 || h.Ports[0].Netns != 42 || h.Ports[0].String() != "tcp 127.0.0.1:631" || h.Ports[1].Path != "/run/s" {
		t.Errorf("held %+v", h)
	}
	if _, found := r.Holders(t.Context(), Wanted{Path: "/run/s"}); len(found.Ports) != 1 || found.Ports[0].Holder != ten[0] {
		t.Errorf("unix socket %+v", found)
	}
	if found, _ := r.Listeners(t.Context(), "tcp", 631); len(found.Ports) != 1 || found.Ports[0].Holder != ten[0] {
		t.Errorf("port %+v", found)
	}
}

// expiring is a context whose time is over when it was asked some times.
type expiring struct {
	context.Context
	left int
}

func (e *expiring) Err() error {
	if e.left--; e.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestListenersFirst: the holder of a port is found among the first, although the time is too short for the host.
func TestListenersFirst(t *testing.T) {
	files := server()
	for pid := range 300 {
		files[fmt.Sprintf("%d/ns/net", 1000+pid)] = "->net:[42]"
	}
	r := tree(t, files)
	for _, first := range [][]string{nil, {"10"}} {
		held, _ := r.Listeners(&expiring{t.Context(), 100}, "tcp", 631, first...)
		if known := allHeld(held.Ports); known != (first != nil) || len(held.Unknown) == 0 {
			t.Errorf("%v first: %+v", first, held)
		}
	}
}

func TestFixtures(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  map[string]string // "": remove it
		ids     []tracer.Identity
		ports   int
		locks   int
		unknown string // part of it
	}{
		{"another process", nil, []tracer.Identity{{PID: 10, Start: 99}}, 0, 0, ""},
		{"nobody", nil, []tracer.Identity{{PID: 11, Start: 1}}, 0, 0, ""},
		{"no locks at all", map[string]string{"locks": "<none>"}, ten, 1, 1, ""},
		{"locks cannot be read", map[string]string{"locks": ""}, ten, 1, 2, "locks"},
		{"malformed fdinfo", map[string]string{"10/fdinfo/4": "flags:\tx\n"}, ten, 1, 1, "pid 10"},
		{"malformed table", map[string]string{"10/net/tcp": header + "x y z\n"}, ten, 0, 2, "ports"},
		{"no IPv6", map[string]string{"10/net/tcp6": ""}, ten, 1, 2, ""},
		{"malformed namespace", map[string]string{"10/ns/net": "->net:[x]"}, ten, 0, 2, "pid 10"},
		{"a descriptor that is closed meanwhile", map[string]string{"10/fdinfo/4": ""}, ten, 1, 1, ""},
		{"a thread with its own table", map[string]string{"10/task/11/fd/3": "->/x/y.lock", "10/task/11/fdinfo/3": "flags:\t0\n", "10/task/12/z": "z"}, ten, 1, 3, ""},
		{"a leader that has exited", map[string]string{"10/fd/3": "", "10/fd/4": "", "10/fd/5": "", "10/fd/6": "", "10/fd/1": "", "10/task/12/fd/9": "->socket:[12345]"}, ten, 1, 0, ""},
		{"a socket that is connected", map[string]string{"10/net/tcp": header + strings.Replace(socketLines[0], " 0A ", " 01 ", 1)}, ten, 0, 2, ""},
		{"a lock file that was removed", map[string]string{"10/fd/5": "->/repo/.git/index.lock (deleted)"}, ten, 1, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := server()
			empty := []string{}
			for name, text := range c.change {
				files[name] = strings.ReplaceAll(text, "<none>", "")
				if text == "" {
					delete(files, name)
					empty = append(empty, name)
				}
			}
			r := tree(t, files)
			if slices.Contains(empty, "10/fd/1") {
				os.MkdirAll(filepath.Join(r.Root, "10/fd"), 0o700)
			}
			h := r.Of(t.Context(), c.ids)
			if len(h.Ports) != c.ports || len(h.Locks) != c.locks || (len(h.Unknown) != 0) != (c.unknown != "") {
				t.Errorf("%+v", h)
			}
			if c.unknown != "" && !strings.Contains(strings.Join(h.Unknown, "; "), c.unknown) {
				t.Errorf("unknown %q, want %q", h.Unknown, c.unknown)
			}
		})
	}
}

// TestBounds: a process with too much is cut off, and that is reported.
func TestBounds(t *testing.T) {
	files := server()
	for i := range 20 {
		files[fmt.Sprintf("10/fd/%d", 100+i)] = fmt.Sprintf("->/x/%d.lock", i)
		files[fmt.Sprintf("10/fdinfo/%d", 100+i)] = "flags:\t0\n"
	}
	r := tree(t, files)
	p, err := r.openAs(ten[0])
	require.NoError(t, err)
	defer p.close()
	left, seen := 10, 0
	if err := r.descriptors(t.Context(), p, &left, func(*descriptor) error { seen++; return nil }); !errors.Is(err, errMany) || seen != 10 {
		t.Errorf("%d seen, %v", seen, err)
	}
}

// TestThreadsInTime: a process with a table for each of many threads takes no longer than allowed.
func TestThreadsInTime(t *testing.T) {
	files := server()
	for tid := 11; tid < 100; tid++ {
		files[fmt.Sprintf("10/task/%d/z", tid)] = ""
	}
	r := tree(t, files)
	ctx, cancel := context.WithCancel(t.Context())
	compared := 0
	r.sameFiles = func(int, int) (bool, error) {
		compared++
		cancel()
		return false, nil
	}
	held := r.Of(ctx, ten)
	if compared != 1 || !slices.ContainsFunc(held.Unknown, func(why string) bool { return strings.Contains(why, errTime.Error()) }) {
		t.Errorf("%d comparisons, unknown: %q", compared, held.Unknown)
	}
}

// TestManyLongPaths: what a session holds is bounded by number in all its processes together, and long paths are not kept.
func TestManyLongPaths(t *testing.T) {
	files, dir := make(map[string]string), "->/"+strings.Repeat(strings.Repeat("d", 199)+"/", 20)
	var all []tracer.Identity
	for pid := 10; pid < 13; pid++ {
		files[fmt.Sprint(pid, "/stat")], files[fmt.Sprint(pid, "/task/1/x")] = stat(pid, 100), ""
		for fd := range maxFound / 2 {
			files[fmt.Sprint(pid, "/fd/", fd)] = fmt.Sprint(dir, fd, ".lock")
		}
		all = append(all, tracer.Identity{PID: uint32(pid), Start: 100})
	}
	files["locks"] = ""
	r := tree(t, files)
	h := r.Of(t.Context(), append(all, all[0]))
	if len(h.Locks) > maxFound || len(h.Locks) < maxFound/2 || len(h.Unknown) == 0 {
		t.Errorf("%d locks, %v", len(h.Locks), h.Unknown)
	}
	if l := h.Locks[0]; len(l.Path) > 256 || !strings.HasSuffix(l.Path, ".lock") {
		t.Errorf("%q", l.Path)
	}
}
