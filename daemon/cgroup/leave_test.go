//go:build linux

package cgroup_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/cgroup"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// host is a registry with the groups of sessions, below a directory that stands for the mount.
type host struct {
	*registrytest.Fixture
	t      *testing.T
	mount  string
	groups *cgroup.Groups
	told   []tracer.Event
	back   []tracer.Identity // whom the Maker moved
}

// mover has the fixture's processes move as the kernel's do.
type mover struct {
	cgroup.Maker
	h *host
}

func (m mover) Move(group string, all ...tracer.Identity) error {
	for _, p := range all {
		m.h.enters(p.PID, group+"/leaf")
	}
	m.h.Update(func(registry.Tx) { m.h.back = append(m.h.back, all...) })
	return nil
}

func newHost(t *testing.T, mount string, options ...func(*registry.Options)) *host {
	h := &host{Fixture: registrytest.New(t, options...), t: t, mount: mount}
	h.groups = cgroup.NewGroups(cgroup.Options{Ground: h.Ground(),
		Returns: func(s tracer.SessionInfo) bool { return s.Name == "returns" },
		Choose:  func() (cgroup.Maker, string, error) { return mover{cgroup.New(mount), h}, mount, nil }})
	h.R.Attach(h.groups.Hooks(), &registry.Hooks{Published: func(_ registry.View, all []tracer.Event) {
		for _, ev := range all {
			if ev.Type == tracer.EventMoved || ev.Type == tracer.EventExit {
				h.told = append(h.told, ev)
			}
		}
	}})
	h.Run()
	return h
}

// dir makes a cgroup, and returns its id.
func (h *host) dir(path string) uint64 {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Join(h.mount, path), 0o755))
	var st unix.Stat_t
	require.NoError(h.t, unix.Stat(filepath.Join(h.mount, path), &st))
	return st.Ino
}

func (h *host) write(path, text string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.mount, path), []byte(text), 0o644))
}

// enters writes in which cgroup a process is, for the look and /proc.
func (h *host) enters(pid uint32, path string) {
	h.K.Edit(pid, func(p *kerneltest.Proc) { p.Cgroup = h.dir(path) })
	dir := filepath.Join(string(h.Proc), fmt.Sprint(pid))
	require.NoError(h.t, os.MkdirAll(dir, 0o755))
	require.NoError(h.t, os.WriteFile(filepath.Join(dir, "cgroup"), []byte("0::"+path+"\n"), 0o644))
}

func (h *host) watch(s *registry.Session, group string) {
	h.t.Helper()
	h.Update(func(registry.Tx) { h.groups.Bind(s.ID(), group, &api.Limits{}, false) })
}

func (h *host) apply(ev tracer.Event) {
	h.Update(func(tx registry.Tx) { tx.Apply([]tracer.Event{ev}) })
}

// outside is what the groups say now, and what was said of moves since the last call.
func (h *host) outside(s *registry.Session) (n int, said string) {
	h.Update(func(tx registry.Tx) {
		if l := tx.Document(s, access.Caller{}).Limits; l != nil {
			n = l.Unlimited
		}
		for i := range h.told {
			ev := document.Event(h.Clock.Clock, 0, &h.told[i], access.Caller{})
			said += display.About(&ev, nil)
		}
		h.told = nil
	})
	return n, said
}

func (h *host) expect(s *registry.Session, outside int, said string) {
	h.t.Helper()
	n, got := h.outside(s)
	require.Equal(h.t, n, outside)
	require.Equal(h.t, got, said)
}

// TestOutside: members outside of their cgroup are counted and reported, found by an event or a look.
func TestOutside(t *testing.T) {
	h := newHost(t, t.TempDir())
	s := h.Session(100, 1000)
	leaf, deep, out := h.dir("/a/own/leaf"), h.dir("/a/own/nested/leaf"), h.dir("/b")
	h.write("/a/own/memory.max", "1000\n")
	h.write("/a/own/memory.current", "950\n")
	h.write("/a/own/memory.stat", "inactive_file 50\n")
	h.watch(s, "/a/own")
	root := h.K.Proc(100).Identity
	moved := func(to uint64, path string) {
		h.apply(tracer.Event{Type: tracer.EventMoved, Time: 1, Process: root, Session: s.ID(),
			Moved: &tracer.Moved{Cgroup: to, Path: path, By: tracer.Identity{PID: 7}, Comm: "systemd"}})
	}
	moved(leaf, "/a/own/leaf")
	h.expect(s, 0, "to cgroup /a/own/leaf, by 7 systemd")
	moved(out, "/b")
	h.expect(s, 1, "to cgroup /b, outside of its session's, by 7 systemd")
	h.K.Fork(100, 101, "child")
	h.apply(tracer.Event{Type: tracer.EventBirth, Evidence: tracer.EvidenceFork, Time: 2, Process: h.K.Proc(101).Identity,
		Session: s.ID(), Creator: root, Looks: tracer.Looks{Cgroup: out}})
	h.expect(s, 2, "")
	h.apply(tracer.Event{Type: tracer.EventExit, Time: 3, Process: h.K.Proc(101).Identity, Session: s.ID()})
	h.K.Exit(101, 0)
	moved(deep, "/a/own/nested/leaf")
	h.expect(s, 0, "exited 0to cgroup /a/own/nested/leaf, by 7 systemd")

	// What no event has told of, a look does, once.
	h.enters(100, "/b")
	h.K.Advance(time.Second)
	for _, said := range []string{"to cgroup /b, outside of its session's", ""} {
		_, err := h.R.Resync(registry.CauseLost)
		require.NoError(t, err)
		h.expect(s, 1, said)
	}
	h.enters(100, "/a/own/leaf")
	h.K.Advance(time.Second)
	_, err := h.R.Resync(registry.CauseLost)
	require.NoError(t, err)
	h.expect(s, 0, "")
	h.watch(s, "/a/own") // a reload of the policy: what was read is kept
	h.Update(func(registry.Tx) { require.Equal(t, h.groups.Near(s.ID()), 0.9) })
}

// TestReturned: where the policy says so, a member that left is moved back, three times at most.
func TestReturned(t *testing.T) {
	var said atomic.Int32
	h := newHost(t, t.TempDir(), func(o *registry.Options) {
		o.Log = zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
			if strings.HasSuffix(text, "stays outside") {
				said.Add(1)
			}
		}))
	})
	h.K.Add(100, 1, "lngtest-root")
	h.K.Add(102, 1, "lngtest-other")
	root := h.K.Proc(100).Identity
	s := h.Create(tracer.SessionSpec{Root: root, Name: "returns"})
	h.enters(100, "/a/own/leaf")
	h.write("/a/own/pids.max", "500\n")
	h.watch(s, "/a/own")
	go h.groups.Run(t.Context())
	leaves := func(p tracer.Identity) {
		h.enters(p.PID, "/b")
		to := &tracer.Moved{Cgroup: h.dir("/b")}
		h.apply(tracer.Event{Type: tracer.EventMoved, Time: 1, Process: p, Session: s.ID(), Moved: to})
	}
	returned := func(outside int, want ...tracer.Identity) {
		t.Helper()
		until(t, "return", func() (all bool) {
			n, _ := h.outside(s)
			h.Update(func(registry.Tx) { all = n == outside && slices.Equal(h.back, want) })
			return all
		})
	}
	leaves(tracer.Identity{PID: 102, Start: 1}) // a member had its PID
	h.K.Fork(100, 101, "child")
	h.enters(101, "/b")
	h.K.Advance(time.Second)
	_, err := h.R.Resync(registry.CauseLost)
	require.NoError(t, err)
	child := h.K.Proc(101).Identity
	for want := []tracer.Identity{child}; len(want) <= 4; want = append(want, root) {
		returned(0, want...)
		leaves(root)
	}
	until(t, "warning", func() bool { return said.Load() == 1 })
	leaves(root)
	leaves(child)
	returned(1, child, root, root, root, child)
	require.Equal(t, said.Load(), 1)
}

// TestOutOfMemory: the OOM killer is named for the group whose own event rose with the victim in it, and for no other.
func TestOutOfMemory(t *testing.T) {
	const gib = 1 << 30
	for name, k := range map[string]struct {
		rose   string // the group that had no memory left
		out    bool   // the victim is outside
		before bool   // it was killed before anything was known
		want   string
	}{
		"the session's limit": {rose: "/u/own", want: ": memory limit 8GiB of session web, it had 7.2GiB; peak 8GiB"},
		"an outer session's":  {rose: "/u", want: ": memory limit of an outer cgroup, it had 7.2GiB"},
		"the host's":          {want: ": the host had no memory left, it had 7.2GiB"},
		"outside":             {rose: "/u/own", out: true, want: ", it had 7.2GiB"},
		"not known":           {before: true, want: ", it had 7.2GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, t.TempDir())
			h.K.Add(100, 1, "lngtest-root")
			s := h.Create(tracer.SessionSpec{Root: h.K.Proc(100).Identity, Name: "web"})
			h.dir("/u/own/leaf")
			count := func(group string, n int) {
				h.write(group+"/memory.events.local", fmt.Sprintf("low 0\nmax 99\noom %d\noom_kill 0\n", n))
			}
			count("/u", 3)
			count("/u/own", 0)
			h.write("/u/own/memory.max", fmt.Sprintln(8*gib))
			h.write("/u/own/memory.peak", fmt.Sprintln(8*gib))
			h.K.Advance(time.Minute)
			h.watch(s, "/u/own")
			at := uint64(h.K.Now())
			if k.before {
				at--
			}
			h.K.Advance(time.Minute)
			if !k.before {
				at = uint64(h.K.Now())
			}
			if k.rose != "" {
				count(k.rose, 4)
			}
			root := h.K.Proc(100).Identity
			if k.out {
				h.apply(tracer.Event{Type: tracer.EventMoved, Process: root, Session: s.ID(), Moved: &tracer.Moved{Cgroup: h.dir("/b")}})
				h.outside(s)
			}
			kill := &tracer.Signal{Number: 9, Sender: lineage.ByOOM, Time: at}
			h.apply(tracer.Event{
				Type: tracer.EventExit, Time: at, Process: root, Session: s.ID(),
				ExitStatus: 9, MaxRSS: 36 * gib / 5, Signal: kill,
			})
			h.expect(s, 0, "killed by the OOM killer"+k.want)
			if kill.OOM != nil {
				t.Error("the event's own signal is changed")
			}
		})
	}
}
