//go:build linux

package lookup_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// family makes root 100, its child 101 (dead), 101's child 102 and its child
// 103.
func family(w *daemontest.Daemon) *api.Session {
	s := w.Session("user", 100, api.NewSession{Name: "x"})
	w.K.Fork(100, 101, "lngtest-mid")
	w.K.Exec(101, "/bin/mid", "mid\x00-m\x00")
	w.K.Fork(101, 102, "lngtest-orphan")
	w.Proc(102, 1, 1000, "lngtest-orphan")
	w.K.Fork(102, 103, "lngtest-leaf")
	w.K.Exit(101, 0)
	return s
}

func pids(t *api.Tree) (all []int) {
	for _, n := range t.Nodes {
		all = append(all, n.PID)
	}
	return all
}

func TestTree(t *testing.T) {
	w := daemontest.New(t)
	s := family(w)
	d := daemontest.Get[api.Tree](w, "user", "/v1/sessions/x/tree")
	if !slices.Equal(pids(d), []int{100, 101, 102, 103}) || len(d.Roots) != 1 || d.Roots[0].PID != 100 || d.Session.ID != s.ID {
		t.Fatalf("%v %+v", pids(d), d.Roots)
	}
	mid, orphan := d.Nodes[1], d.Nodes[2]
	if mid.State != "exited" || mid.ExitCode == nil || mid.Exited == nil || len(mid.Children) != 1 || mid.Children[0].PID != 102 || mid.Task != "" {
		t.Errorf("%+v", mid.Process)
	}
	if orphan.State != "live" || !orphan.Orphan || orphan.Creator.PID != 101 || orphan.Parent.PID != 1 || orphan.Task != "S" ||
		orphan.Exe != "/bin/lngtest-orphan" || orphan.Cwd != "/lngtest-cwd" || orphan.Cgroup != "/lngtest" || orphan.NSPID != 7 || orphan.Evidence.Kind != "fork" ||
		len(orphan.Argv) != 2 {
		t.Errorf("%+v", orphan.Process)
	}
	w.K.Exit(103, 0)
	if d := daemontest.Get[api.Tree](w, "user", "/v1/sessions/x/tree"); !slices.Equal(pids(d), []int{100, 101, 102}) {
		t.Errorf("ancestors: %v", pids(d))
	}
	if d := daemontest.Get[api.Tree](w, "user", "/v1/sessions/x/tree?dead=all"); !slices.Equal(pids(d), []int{100, 101, 102, 103}) {
		t.Errorf("all: %v", pids(d))
	}
	w.Do("user", "GET", "/v1/sessions/x/tree?dead=some", nil).Refused(api.CodeBadRequest)
	w.Do("else", "GET", "/v1/sessions/x/tree", nil).Refused(api.CodeNotFound)
}

func TestProcess(t *testing.T) {
	w := daemontest.New(t)
	family(w)
	p := daemontest.Get[api.Process](w, "user", "/v1/processes/102")
	if p.Kind != "process" || p.PID != 102 || p.StartNS == 0 || p.State != "live" {
		t.Errorf("%+v", p)
	}
	exact := daemontest.Get[api.Process](w, "user", "/v1/processes/"+p.Ref.String())
	if exact.Ref != p.Ref {
		t.Errorf("%+v", exact)
	}
	w.Do("user", "GET", fmt.Sprintf("/v1/processes/102@%d", p.StartNS-1), nil).Refused(api.CodeIdentity)
	w.Do("user", "GET", "/v1/processes/4000", nil).Refused(api.CodeNotFound)
	w.Do("user", "GET", "/v1/processes/x", nil).Refused(api.CodeBadRequest)
	w.Do("user", "GET", fmt.Sprintf("/v1/processes/%d", daemontest.Shell), nil).Refused(api.CodeDenied)
	w.Do("100", "GET", fmt.Sprintf("/v1/processes/%d", daemontest.User), nil).Refused(api.CodeDenied)
	if p := daemontest.Get[api.Process](w, "user", fmt.Sprintf("/v1/processes/%d", daemontest.User)); p.Session != "" || p.Comm != "lngtest-user" {
		t.Errorf("%+v", p)
	}
	t.Run("dead, and its PID reused", func(t *testing.T) {
		was := daemontest.Get[api.Process](w, "user", "/v1/processes/103")
		w.K.Exit(103, 9)
		w.Add(103, daemontest.Shell, 0, "lngtest-reuser")
		p := daemontest.Get[api.Process](w, "user", "/v1/processes/"+was.Ref.String())
		if p.State != "exited" || p.Signal != "SIGKILL" {
			t.Errorf("%+v", p)
		}
		w.Do("user", "GET", "/v1/processes/103", nil).Refused(api.CodeDenied)
	})
}

// TestWhyBeforeItsEvent: the event of a birth is lost, but the kernel knows the process.
func TestWhyBeforeItsEvent(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{})
	w.K.AllRead()
	w.Hold(func() {
		w.K.Fork(100, 101, "lngtest-unseen")
		w.K.DropEvents()
	})
	w.Proc(101, 100, 1000, "lngtest-unseen")
	d := daemontest.Get[api.Why](w, "user", "/v1/why?ref=101")
	if d.Session == nil || d.Session.ID != s.ID || len(d.Edges) != 2 {
		t.Errorf("%+v", d)
	}
}

// Some kernels show PID 1 only in procfs, where everyone can see it.
func TestInitIsHidden(t *testing.T) {
	w := daemontest.New(t)
	w.K.Exit(1, 0)
	if e := w.Do("user", "GET", "/v1/why?ref=1", nil).Refused(api.CodeNotFound); e.Message != "pid 1 is not in a session: it is the host's init" {
		t.Errorf("%+v", e)
	}
	if e := w.Do("root", "POST", "/v1/sessions", api.NewSession{Adopt: true, Root: api.Ref{PID: 1}}).
		Refused(api.CodeGuarded); e.Message != "pid 1 is the host's init: it is never adopted" {
		t.Errorf("%+v", e)
	}
}
