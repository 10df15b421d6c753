//go:build linux

package lookup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

var web, db, alone = strings.Repeat("ab", 32), strings.Repeat("cd", 32), strings.Repeat("ef", 32)

func TestID(t *testing.T) {
	for path, want := range map[string]string{
		"":                                              " ",
		"/user.slice/user-1000.slice":                   " ",
		"/docker/" + web:                                web + " docker",
		"/docker/" + web + "/init.scope":                web + " docker",
		"/system.slice/docker-" + web + ".scope":        web + " docker",
		"/docker/" + db + "/docker/" + web:              web + " docker",
		"/docker/" + web[:63]:                           " ",
		"/docker/" + web + "0":                          " ",
		"/docker/" + strings.ToUpper(web):               " ",
		"/k8s.io/" + web:                                web + " containerd",
		"/kubepods/burstable/pod1/" + web:               web + " ",
		"/machine.slice/libpod-" + web + ".scope/x":     web + " podman",
		"/machine.slice/libpod-conmon-" + web:           " ",
		"/kubepods.slice/crio-" + web + ".scope":        web + " cri-o",
		"/kubepods.slice/crio-conmon-" + web + ".scope": " ",
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + web + ".scope/init": web + " containerd",
	} {
		id, runtime := ContainerID(path)
		require.Equal(t, id+" "+runtime, want)
		if !strings.HasPrefix(path, "/") {
			continue
		}
		id, runtime = ContainerIDOf("7:pids:/user.slice\n0::" + path + "\n")
		require.Equal(t, id+" "+runtime, want)
	}
}

// host is a procfs of files, in which PIDs 30 and 31 are shims of root.
type host struct {
	*testing.T
	proc procfs.FS
	dir  string // of the bundles, and of docker's records
	f    *ContainerFinder
}

func newHost(t *testing.T) *host {
	h := &host{T: t, proc: procfs.FS(t.TempDir()), dir: t.TempDir()}
	h.f = NewContainerFinder(h.proc, zerolog.Nop())
	h.process(30, 1, "containerd-shim", "/system.slice/docker.service", "host")
	h.process(31, 1, "containerd-shim", "/system.slice/docker.service", "host")
	return h
}

func (h *host) process(pid, parent int, comm, cgroup, namespace string) {
	h.Helper()
	procfstest.Files(h, fmt.Sprint(string(h.proc), "/", pid), map[string]string{
		"stat":    fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0", pid, comm, parent),
		"status":  fmt.Sprintf("Name:\t%s\nUid:\t%d\t%[2]d\t%[2]d\t%[2]d\n", comm, os.Geteuid()),
		"comm":    comm + "\n",
		"cgroup":  "0::" + cgroup + "\n",
		"cmdline": comm + "\x00",
	})
	h.link(pid, "ns/pid", "pid:["+namespace+"]")
	h.link(pid, "root", "/")
}

func (h *host) link(pid int, name, to string) {
	h.Helper()
	path := h.proc.Path(uint32(pid), name)
	_ = os.Remove(path)
	require.NoError(h, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(to, path)))
}

// docker makes a container of shim 30 with the main process 300, which docker has under a name.
func (h *host) docker(id, name string) {
	h.Helper()
	procfstest.Files(h, h.dir, map[string]string{
		"b/" + id + "/config.json":    `{"process":{"env":["PATH=/bin","LINEAGE_EXEC=end"]},"mounts":[{"destination":"/proc","source":"proc"},{"destination":"/etc/hostname","source":"` + h.dir + "/r/" + id + `/hostname"}]}`,
		"r/" + id + "/config.v2.json": `{"ID":"` + id + `","Name":"/` + name + `","Config":{"Image":"node:22","Labels":{"team":"web","app":"shop"}},"Created":"2026-01-02T03:04:05Z"}`,
	})
	h.link(30, "cwd", filepath.Join(h.dir, "b", id))
	h.process(300, 30, "node", "/docker/"+id, "web")
}

// pod makes a container of shim 31, whose working directory is the bundle of the pod's sandbox.
func (h *host) pod(id string, pid int) {
	h.Helper()
	procfstest.Files(h, h.dir, map[string]string{
		"b/" + id + "/init.pid": fmt.Sprint(pid),
		"b/" + id + "/config.json": `{"process":{"env":["A=` + strings.Repeat(
			"x",
			maxSpec,
		) + `","B=2"]},"mounts":[{"destination":"/etc/hostname","source":"/run/sandboxes/s/hostname"}],"annotations":{"io.kubernetes.cri.sandbox-id":"s","io.kubernetes.cri.sandbox-name":"agent-7f","io.kubernetes.cri.sandbox-namespace":"build",` +
			`"io.kubernetes.cri.container-name":"work","io.kubernetes.cri.image-name":"registry/agent:1"}}`,
	})
	require.NoError(h, os.MkdirAll(h.dir+"/b/sandbox", 0o700))
	h.link(31, "cwd", h.dir+"/b/sandbox")
	h.process(pid, 31, "agent", "/kubepods/pod1/"+id, "pod")
}

// TestNames: each engine's containers have their names, of the main process, of what it started, and of what the
// engine put in.
func TestNames(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	h.process(301, 300, "sh", "/docker/"+web+"/sub", "web")
	h.process(302, 30, "exec", "/docker/"+web, "web")
	h.pod(db, 310)
	h.process(311, 31, "exec", "/kubepods/pod1/"+db, "pod")
	h.process(40, 1, "conmon", "/machine.slice/libpod-conmon-"+db+".scope", "host")
	procfstest.Files(t, string(h.proc)+"/40", map[string]string{"cmdline": "conmon\x00-c\x00" + db + "\x00-n\x00db\x00"})
	h.process(400, 40, "postgres", "/machine.slice/libpod-"+db+".scope", "db")
	h.process(500, 1, "runc", "/"+db, "r")
	h.process(32, 1, "containerd-shim", "/system.slice/containerd.service", "host") // of ctr
	h.link(32, "cwd", h.dir+"/b/"+alone)
	procfstest.Files(t, h.dir, map[string]string{"b/" + alone + "/config.json": `{"process":{"env":["A=1"]}}`})
	h.process(320, 32, "sleep", "/default/"+alone, "alone")
	h.process(33, 300, "containerd-shim", "/docker/"+web, "web") // of an engine in a container
	h.link(33, "cwd", h.dir+"/b/"+alone)
	h.process(330, 33, "sleep", "/docker/"+web+"/default/"+alone, "alone")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	docker := lineage.Container{ID: web, Name: "web", Image: "node:22", Runtime: "docker", Created: at}
	cri := lineage.Container{ID: db, Name: "work", Image: "registry/agent:1", Runtime: "containerd", Pod: "agent-7f", Namespace: "build"}
	for pid, want := range map[uint32]lineage.Container{
		300: docker, 301: docker, 302: docker, 310: cri, 311: cri, 400: {ID: db, Name: "db", Runtime: "podman"}, 500: {ID: db}, 320: {ID: alone, Runtime: "containerd"},
		330: {ID: alone, Runtime: "containerd"},
	} {
		if got := h.f.Of(pid, nil); got == nil || *got != want {
			t.Errorf("%d: %+v, want %+v", pid, got, want)
		}
	}
	if h.f.Of(300, nil) != h.f.Of(302, nil) {
		t.Error("it is read again and again")
	}
	near := &lineage.Container{ID: web, Name: "creator's"}
	if got := h.f.Of(301, near); got != near {
		t.Errorf("%+v, not what its creator is in", got)
	}
	for _, pid := range []uint32{310, 500} {
		if got := h.f.Of(pid, near); got == nil || got.ID != db {
			t.Errorf("%d: %+v, what its creator is in", pid, got)
		}
	}
	for _, pid := range []uint32{1, 30, 40} {
		if got := h.f.Of(pid, nil); got != nil {
			t.Errorf("%d: %+v", pid, got)
		}
	}
	require.Equal(t, h.f.Of(999, near), near)
}

// TestSpec: what a container was created with, as far as it fits.
func TestSpec(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	h.pod(db, 310)
	for range 2 { // read, then known
		if got, _ := h.f.Look(300); !slices.Equal(got.Env, []string{"PATH=/bin", "LINEAGE_EXEC=end"}) || !slices.Equal(got.Labels, []string{"app=shop", "team=web"}) {
			t.Errorf("%+v", got)
		}
		if got, _ := h.f.Look(310); got.Container == nil || got.Container.Name != "work" || !slices.Equal(got.Env, []string{"B=2"}) || got.Labels != nil {
			t.Errorf("%+v, env %.40q, labels %q", got.Container, got.Env, got.Labels)
		}
	}
	for _, pid := range []uint32{1, 30, 999} {
		if got, _ := h.f.Look(pid); got.Container != nil || got.Env != nil {
			t.Errorf("%d: %+v", pid, got)
		}
	}
}

// TestNeverAWrongName: a record that a user can have written, one that cannot be read, and that of another container give
// no name.
func TestNeverAWrongName(t *testing.T) {
	require.Root(t)
	const user = 1000
	bundle, record := "b/"+web+"/config.json", "r/"+web+"/config.v2.json"
	for name, change := range map[string]func(h *host) error{
		"bundle of a user":   func(h *host) error { return os.Chown(h.dir+"/"+bundle, user, user) },
		"bundle for all":     func(h *host) error { return os.Chmod(h.dir+"/"+bundle, 0o666) },
		"record of a user":   func(h *host) error { return os.Chown(h.dir+"/"+record, user, user) },
		"record for a group": func(h *host) error { return os.Chmod(h.dir+"/"+record, 0o620) },
		"record of another": func(h *host) error {
			return os.WriteFile(h.dir+"/"+record, []byte(`{"ID":"`+db+`","Name":"/web"}`), 0o600)
		},
		"not JSON":             func(h *host) error { return os.WriteFile(h.dir+"/"+bundle, []byte("web"), 0o600) },
		"half written":         func(h *host) error { return os.Truncate(h.dir+"/"+record, 90) },
		"empty":                func(h *host) error { return os.Truncate(h.dir+"/"+bundle, 0) },
		"100 MB":               func(h *host) error { return os.Truncate(h.dir+"/"+bundle, 100<<20) },
		"no bundle":            func(h *host) error { return os.Remove(h.dir + "/" + bundle) },
		"a name without limit": func(h *host) error { h.docker(web, strings.Repeat("x", 300)); return nil },
		"FIFO": func(h *host) error {
			return errors.Join(os.Remove(h.dir+"/"+bundle), unix.Mkfifo(h.dir+"/"+bundle, 0o600))
		},
		"link": func(h *host) error {
			return errors.Join(os.Rename(h.dir+"/"+record, h.dir+"/x"), os.Symlink(h.dir+"/x", h.dir+"/"+record))
		},
		"directory": func(h *host) error {
			return errors.Join(os.Remove(h.dir+"/"+bundle), os.Mkdir(h.dir+"/"+bundle, 0o700))
		},
		"a shim of a user": func(h *host) error {
			procfstest.Files(h, string(h.proc)+"/30", map[string]string{"status": "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"})
			return nil
		},
		"a set-uid shim": func(h *host) error {
			procfstest.Files(h, string(h.proc)+"/30", map[string]string{"status": fmt.Sprintf("Name:\tx\nUid:\t1000\t%d\t%[1]d\t%[1]d\n", os.Geteuid())})
			return nil
		},
		"no shim": func(h *host) error { return os.RemoveAll(string(h.proc) + "/30") },
		"the cgroup of another's container": func(h *host) error { // it may make cgroups, and its shim is another
			h.pod(db, 310)
			h.process(300, 31, "forger", "/kubepods/pod1/"+db+"/"+web, "forger")
			procfstest.Files(h, h.dir, map[string]string{"b/" + web + "/init.pid": "310"})
			return nil
		},
		"the namespace of another's container": func(h *host) error {
			h.pod(web, 300)
			h.process(300, 31, "forger", "/kubepods/pod1/"+web, "forger")
			procfstest.Files(h, h.dir, map[string]string{"b/" + web + "/init.pid": "320"})
			h.process(320, 31, "work", "/kubepods/pod1/"+web, "pod")
			return nil
		},
		"the cgroup of another container of the pod": func(h *host) error { // they share a PID namespace
			h.pod(web, 300)
			h.process(310, 31, "pause", "/kubepods/pod1/"+db, "pod")
			h.process(300, 310, "forger", "/kubepods/pod1/"+db+"/"+web, "pod")
			procfstest.Files(h, h.dir, map[string]string{"b/" + web + "/init.pid": "320"})
			h.process(320, 31, "work", "/kubepods/pod1/"+web, "pod")
			return nil
		},
		"a conmon of another": func(h *host) error {
			h.process(40, 1, "conmon", "/machine.slice/x", "host")
			procfstest.Files(h, string(h.proc)+"/40", map[string]string{"cmdline": "conmon\x00-c\x00" + db + "\x00-n\x00db\x00"})
			h.process(300, 40, "forger", "/machine.slice/libpod-"+web+".scope", "web")
			return nil
		},
		"no main process": func(h *host) error {
			h.pod(web, 300)
			procfstest.Files(h, h.dir, map[string]string{"b/" + web + "/init.pid": "320"})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.docker(web, "web")
			if got := h.f.Of(300, nil); got.Name != "web" {
				t.Fatalf("%+v", got)
			}
			h.f = NewContainerFinder(h.proc, zerolog.Nop()) // it has read nothing
			require.NoError(t, change(h))
			if got := h.f.Of(300, nil); got == nil || got.ID != web || got.Name != "" || got.Pod != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestKnownOfAnother: what was read for one process is not told of another one that only names the container, and not for long
// of any: a container may get another name.
func TestKnownOfAnother(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	require.Equal(t, h.f.Of(300, nil).Name, "web")
	h.docker(web, "shop")
	for key, x := range h.f.known {
		x.read = x.read.Add(-fresh)
		h.f.known[key] = x
	}
	require.Equal(t, h.f.Of(300, nil).Name, "shop")
	h.pod(db, 310)
	require.Equal(t, h.f.Of(310, nil).Name, "work")
	h.process(320, 31, "forger", "/kubepods/pod1/"+db, "forger")
	if got := h.f.Of(320, nil); got.Name != "" {
		t.Errorf("%+v", got)
	}
}

// TestPIDGivenAway: what a supervisor has on record is not told once another process has its PID.
func TestPIDGivenAway(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	by, inside := h.f.supervisor(300, web)
	by.start++
	if found, err := h.f.recorded(by, inside, "docker"); !errors.Is(err, errMoved) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestBounds: what is known of containers, and of those whose record cannot be read, is bounded. A record that can be read again is not told.
func TestBounds(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	record := h.dir + "/r/" + web + "/config.v2.json"
	for i, move := range [][2]string{{record, record + ".away"}, {record + ".away", record}} {
		require.NoError(t, os.Rename(move[0], move[1]))
		if h.f.Of(300, nil); len(h.f.Unread()) != 1-i {
			t.Errorf("%s: %q", move[0], h.f.Unread())
		}
	}
	clear(h.f.known)
	h.f.noteUnread(lives{web, 30, 8}, errOther) // its supervisor is gone
	for n := range maxKnown + 1 {
		h.f.known[lives{pid: uint32(n)}] = known{}
		h.f.noteUnread(lives{fmt.Sprint(n), 30, 9}, errOther)
	}
	got := h.f.Of(300, nil)
	if all := h.f.Unread(); got.Name != "web" || len(h.f.known) > maxKnown || len(h.f.unread) != maxKnown-1 || len(all) != maxUnread {
		t.Errorf("%+v; %d are known, %d not, %d told", got, len(h.f.known), len(h.f.unread), len(all))
	}
}

// TestDeadFileServer: a bundle on a file server that does not answer stops nothing.
func TestDeadFileServer(t *testing.T) {
	h := newHost(t)
	h.docker(web, "web")
	server := procfstest.Serve(t, filepath.Join(h.dir, "b", web), procfstest.Open)
	done := make(chan *lineage.Container, 1)
	go func() { done <- h.f.Of(300, nil) }()
	select {
	case got := <-done:
		require.Equal(t, *got, lineage.Container{ID: web, Runtime: "docker"})
	case <-time.After(require.Slowed(10 * time.Second)):
		t.Fatal("it hangs")
	}
	select {
	case <-server.Asked:
	default:
		t.Error("the server was not asked")
	}
}
