//go:build linux

package attribution

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// A variable distinguishes the members of a session only if neither the daemon nor the session's owner nor its root
// has it.
func TestCookiesOfSurroundings(t *testing.T) {
	proc := procfs.FS(t.TempDir())
	a := &Attribution{o: Options{Kernel: seen{kerneltest.New()}, Proc: proc, Self: tracer.Identity{PID: 3, Start: 1}}, cookieSets: make(map[tracer.SessionID]*cookieSet)}
	for pid, environ := range map[uint32]string{3: "BUILD_ID=daemon", 4: "BUILD_ID=owner", 5: "BUILD_ID=root", 6: "BUILD_ID=own"} {
		if err := errors.Join(os.MkdirAll(proc.Path(pid, ""), 0o700), os.WriteFile(proc.Path(pid, "environ"), []byte(environ+"\x00"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for pid, who := range map[uint32]string{3: "daemon", 4: "owner", 5: "root", 6: "own"} {
		info := tracer.SessionInfo{ID: tracer.SessionID(pid), Owner: tracer.Identity{PID: 4, Start: 1}, Root: tracer.Identity{PID: 5, Start: 1}}
		child := uint32(100)
		if err := errors.Join(os.MkdirAll(proc.Path(child, ""), 0o700), os.WriteFile(proc.Path(child, "environ"), []byte("BUILD_ID="+who+"\x00"), 0o600)); err != nil {
			t.Fatal(err)
		}
		a.readCookies(&tracer.Process{Identity: tracer.Identity{PID: child, Start: 1}}, &info)
		if its := a.cookieSets[info.ID].inside[broker.Cookie{Name: "BUILD_ID", Value: broker.SumOf(who)}]; its != (pid == 6) {
			t.Errorf("the variable of the %s counts: %v", who, its)
		}
	}
}

// A process that began before the request is not the request's, although its unit was described after it.
func TestUnitBeforeRequest(t *testing.T) {
	zero := time.Now().Add(-time.Hour)
	a := &Attribution{o: Options{Files: t.TempDir()}}
	a.o.Clock = registry.Clock{Clock: func() time.Time { return zero }}
	dir := filepath.Join(a.o.Files, "run/systemd/transient")
	path, at := filepath.Join(dir, "lngtest.service"), zero.Add(time.Minute)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
	asked := uint64(time.Minute - time.Second)
	e := request{Request: broker.Request{Unit: "lngtest.service"}, Asked: asked}
	all := []claimant{{requests: []request{e}, asked: []*request{&e}}}
	for start, want := range map[uint64]bool{asked - 1: false, asked: true, asked + 1: true} {
		x := &candidate{place: broker.Place{Unit: "lngtest.service", User: -1}}
		x.Start = start
		if got := a.byUnit(x, all) != nil; got != want {
			t.Errorf("begun %d ns after the request: %v", int64(start)-int64(asked), got)
		}
	}
}

// Docker's record is believed only if root alone can have written it.
func TestRecordOfContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	id := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		file     string
		owner    int
		mode     os.FileMode
		believed bool
	}{
		"root's":              {"config.v2.json", 0, 0o600, true},
		"readable":            {"config.v2.json", 0, 0o644, true},
		"a user's":            {"config.v2.json", user, 0o600, false},
		"writable for all":    {"config.v2.json", 0, 0o666, false},
		"writable for groups": {"config.v2.json", 0, 0o620, false},
		"bundle of a user":    {"config.json", user, 0o600, false},
		"bundle for all":      {"config.json", 0, 0o666, false},
	} {
		a := &Attribution{o: Options{Proc: procfs.FS(t.TempDir())}}
		root := t.TempDir()
		bundle, record := filepath.Join(root, "b", id), filepath.Join(root, "r", id)
		files := map[string]string{
			filepath.Join(bundle, "config.json"):    `{"mounts":[{"destination":"/etc/hostname","source":"` + filepath.Join(record, "hostname") + `"}]}`,
			filepath.Join(record, "config.v2.json"): `{"ID":"` + id + `","Name":"/web"}`,
		}
		err := errors.Join(os.MkdirAll(bundle, 0o755), os.MkdirAll(record, 0o755), os.MkdirAll(a.o.Proc.Path(30, ""), 0o755),
			os.Symlink(bundle, a.o.Proc.Path(30, "cwd")))
		for path, text := range files {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
			if filepath.Base(path) == c.file {
				err = errors.Join(err, os.Chmod(path, c.mode), os.Chown(path, c.owner, -1))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		x := &candidate{place: broker.Place{Container: id}}
		x.Parent.PID = 30
		if got, _ := a.container(x); (got == "web") != c.believed {
			t.Errorf("%s: %q", name, got)
		}
	}
}
