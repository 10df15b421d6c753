//go:build linux

package lookup

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// TestEntered finds the container of what was put into one, and of its main process, and refuses what has a PID namespace of its
// own within it, and what only has its cgroup.
func TestEntered(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	procfstest.Files(t, h.dir, map[string]string{"b/" + web + "/init.pid": "300"})
	h.pod(db, 310)
	h.process(302, 30, "exec", "/docker/"+web, "web")
	h.process(303, 300, "left", "/docker/"+web+"/sub", "web") // an orphan
	h.process(304, 30, "sandbox", "/docker/"+web, "within")
	h.process(311, 31, "exec", "/kubepods/pod1/"+db, "pod")
	h.process(309, 31, "pause", "/kubepods/pod1/"+alone, "pod")
	h.process(312, 309, "left", "/kubepods/pod1/"+db+"/sub", "pod") // an orphan where the pod's containers share a PID namespace
	h.process(40, 1, "conmon", "/machine.slice/x", "host")
	h.process(401, 40, "exec", "/machine.slice/libpod-"+web+".scope", "db")
	h.process(500, 1, "runc", "/"+db, "r")
	h.process(600, 1, "nsenter", "/user.slice", "web")
	h.process(305, 300, "left", "/docker/"+web, "its own")
	h.process(306, 304, "left", "/docker/"+web, "its own")
	h.process(307, 300, "left", "/user.slice", "web")
	h.process(313, 1, "left", "/user.slice", "web")
	h.process(32, 30, "runc", "/user.slice", "host")
	h.process(308, 32, "exec", "/user.slice", "web")
	procfstest.Files(
		t,
		h.dir,
		map[string]string{
			"b/" + alone + "/init.pid":    "309",
			"b/" + alone + "/config.json": `{"annotations":{"io.kubernetes.cri.sandbox-id":"s","io.kubernetes.cri.sandbox-name":"agent-7f","io.kubernetes.cri.sandbox-namespace":"build"}}`,
		},
	)
	h.link(31, "cwd", h.dir+"/b/"+alone)
	h.process(314, 999, "left", "/kubepods/pod1/"+db, "pod") // it gets another parent now
	h.process(315, 31, "exec", "/kubepods/pod1/"+strings.Repeat("09", 32), "its own")
	bare := strings.Repeat("ba", 32) // of ctr: it has no name
	procfstest.Files(t, h.dir, map[string]string{"b/" + bare + "/init.pid": "330", "b/" + bare + "/config.json": `{}`})
	h.process(33, 1, "containerd-shim", "/system.slice/containerd.service", "host")
	h.link(33, "cwd", h.dir+"/b/"+bare)
	h.process(330, 33, "sleep", "/default/"+bare, "bare")
	h.process(331, 33, "left", "/user.slice", "bare")
	for _, pid := range []uint32{314, 315} { // what is not known yet, and not the sandbox
		in := map[uint32]uint32{314: 309, 315: 315}[pid]
		if found, err := h.f.Entered(in, pid); err == nil || errors.Is(err, ErrNoContainer) || errors.Is(err, ErrInner) {
			t.Errorf("%d, by %d: %+v, %v, which is final", in, pid, found, err)
		}
	}
	for _, c := range []struct {
		in, pid uint32
		name    string
		err     error
	}{
		{302, 302, "web", nil}, {300, 303, "web", nil}, {311, 311, "work", nil}, {309, 312, "work", nil},
		{300, 300, "web", nil}, {304, 304, "", ErrInner}, {304, 306, "", ErrInner}, {300, 310, "", ErrInner}, {331, 331, "", nil},
		{300, 305, "web", nil}, {300, 307, "web", nil}, {300, 313, "web", nil}, {308, 308, "web", nil}, // in another PID namespace, or cgroup, by now
		{401, 401, "", ErrNoContainer}, {500, 500, "", errMoved}, {600, 600, "", ErrNoContainer}, {30, 30, "", ErrNoContainer},
	} {
		in, err := h.f.Entered(c.in, c.pid)
		if !errors.Is(err, c.err) || err == nil && (in.Container.Name != c.name || (c.name == "web") != (in.Main == 300)) {
			t.Errorf("%d, by %d: %+v, %v", c.in, c.pid, in, err)
		}
	}
	require.NoError(t, os.Remove(h.dir+"/b/"+web+"/init.pid"))
	for _, pid := range []uint32{302, 999} {
		if in, err := h.f.Entered(pid, pid); err == nil || errors.Is(err, ErrNoContainer) || errors.Is(err, ErrInner) {
			t.Errorf("%d: %+v, %v, which is final", pid, in, err)
		}
	}
}
