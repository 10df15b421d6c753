//go:build linux

package acts_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// household is a session of the user: 100 has started 101 and 105. 101 has started 102,
// which is dead and has started 103. 105 is a sibling of the branch of 101, and has
// started 106.
func household(t *testing.T, options ...daemontest.Option) (w *daemontest.Daemon, s *api.Session, dead string) {
	t.Helper()
	w = daemontest.New(t, options...)
	s = w.Session("user", 100, api.NewSession{Name: "household", GraceMS: daemontest.MS(0)})
	for _, p := range []struct{ creator, pid uint32 }{{100, 101}, {101, 102}, {102, 103}, {100, 105}, {105, 106}} {
		w.Fork(p.creator, p.pid, 1000, fmt.Sprintf("lngtest-%d", p.pid))
	}
	w.K.Exec(101, "/bin/branch", "branch\x00")
	dead = w.Ref(102)
	w.K.Exit(102, 0)
	w.K.AllRead()
	return w, s, dead
}

// Nothing is signalled, and every process stays in its session, when a guard, a right
// or a plan refuses the end of a branch.
func TestBranchRefused(t *testing.T) {
	w, s, _ := household(t)
	nested := daemontest.Into[api.Session](w.Do("105", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 106}}), http.StatusCreated)
	other := w.Session("root", 200, api.NewSession{})
	w.Fork(200, 201, 0, "lngtest-other")
	stale := strings.TrimSuffix(w.Ref(101), "0") + "9"
	plan := daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/processes/"+w.Ref(101)+"/plan", nil), http.StatusOK)
	w.K.Fork(101, 107, "lngtest-107")
	w.K.Exec(107, "/bin/new", "new\x00")
	for _, tt := range []struct {
		what, who, ref string
		req            api.EndRequest
		code, says     string
	}{
		{"an owner", "user", w.Ref(105), api.EndRequest{}, api.CodeGuarded, "is the owner of session " + nested.ID},
		{"the caller", "101", w.Ref(101), api.EndRequest{}, api.CodeGuarded, "is the caller"},
		{"an ancestor of the caller", "103", w.Ref(101), api.EndRequest{}, api.CodeGuarded, "the caller"},
		{"another session, by a member", "101", w.Ref(201), api.EndRequest{}, api.CodeDenied, "member of session " + s.ID},
		{"an outsider", "root", w.Ref(daemontest.Shell), api.EndRequest{}, api.CodeNotFound, "not in a session"},
		{"a PID alone", "user", "101", api.EndRequest{}, api.CodeBadRequest, "PID@START_NS"},
		{"another process of that PID", "user", stale, api.EndRequest{}, api.CodeIdentity, "not the process"},
		{"a plan that has changed", "user", w.Ref(101), api.EndRequest{PlanToken: plan.Token}, api.CodeChanged, "pid 107 is not in the plan"},
		{"bad grace", "user", w.Ref(101), api.EndRequest{Now: true, GraceMS: daemontest.MS(1)}, api.CodeBadRequest, "cannot be used together"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if e := w.Do(tt.who, "POST", "/v1/processes/"+tt.ref+"/end", tt.req).Refused(tt.code); !strings.Contains(e.Message, tt.says) {
				t.Errorf("%+v", e)
			}
			w.Unsignalled()
			w.In(map[uint32]string{100: s.ID, 101: s.ID, 103: s.ID, 105: s.ID, 106: nested.ID, 107: s.ID, 201: other.ID})
			daemontest.Get[api.Process](w, "103", "/v1/processes/"+w.Ref(101)) // its own session still knows it
			if all, _ := w.K.Sessions(); len(all) != 3 {
				t.Errorf("sessions: %+v", all)
			}
		})
	}
}

// A member may not end processes of another uid in a session that is not its user's.
func TestBranchOfAnotherUID(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("root", 100, api.NewSession{})
	for pid, creator := range map[uint32]uint32{101: 100, 105: 100} {
		w.K.Fork(creator, pid, "lngtest-user")
		w.K.Edit(pid, func(p *kerneltest.Proc) { p.UID = 1000 })
		w.Proc(pid, creator, 1000, "lngtest-user")
	}
	w.Fork(101, 102, 0, "lngtest-root")
	w.K.Edit(102, func(p *kerneltest.Proc) { p.UID = 0 })
	if e := w.Do("105", "POST", "/v1/processes/"+w.Ref(101)+"/end", api.EndRequest{Now: true}).Refused(api.CodeDenied); !strings.Contains(e.Message,
		"pid 102 runs as uid 0") {
		t.Errorf("%+v", e)
	}
	w.Survive([]uint32{100, 101, 102, 105}, 100, 101, 102, 105)
	w.Unsignalled()
	w.In(map[uint32]string{101: s.ID})
	w.K.Exit(102, 0)
	daemontest.Into[api.Report](w.Do("105", "POST", "/v1/processes/"+w.Ref(101)+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
	w.Survive([]uint32{100, 101, 105}, 100, 105)
}

// joining is a kernel in which something happens right before a session is created, and right after a halt is in force.
type joining struct {
	*kerneltest.Kernel
	join *func()
}

func (k *joining) Create(spec tracer.SessionSpec) (tracer.SessionID, error) {
	if join := *k.join; join != nil {
		join()
	}
	return k.Kernel.Create(spec)
}

func (k *joining) SetHalt(h tracer.Halt, ends []tracer.SessionID) error {
	defer (*k.join)()
	return k.Kernel.SetHalt(h, ends)
}

// The guards are asked again right before the first signal: a process that must not be
// ended may join the branch after the first time, while the branch is separated.
func TestBranchJoinedMeanwhile(t *testing.T) {
	enter := func(w *daemontest.Daemon, from tracer.SessionID, pid uint32) {
		w.K.Edit(pid, func(p *kerneltest.Proc) { p.Flags = 0 })
		if err := w.K.Enter(0, from, w.K.Proc(pid).Identity, w.K.Proc(101).Identity, tracer.SourceRequest); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		pid  uint32
		says string
		join func(*daemontest.Daemon, tracer.SessionID)
	}{
		{120, "protected", func(w *daemontest.Daemon, _ tracer.SessionID) {
			w.K.Fork(101, 120, "lngtest-protected")
			w.K.Edit(120, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
		}},
		{daemontest.User, "is the caller", func(w *daemontest.Daemon, from tracer.SessionID) { enter(w, from, daemontest.User) }},
		{1, "the init process", func(w *daemontest.Daemon, from tracer.SessionID) { enter(w, from, 1) }},
	} {
		t.Run(tt.says, func(t *testing.T) {
			var join func()
			w, s, _ := household(t, func(w *daemontest.Daemon) {
				w.Host.Open = func(tracer.Options) (daemon.Kernel, error) { return &joining{w.K, &join}, nil }
			})
			from := w.ID(s.ID)
			join = func() { tt.join(w, from) }
			if e := w.Do("user", "POST", "/v1/processes/"+w.Ref(101)+"/end", api.EndRequest{Now: true}).Refused(api.CodeGuarded); !strings.Contains(e.Message, tt.says) {
				t.Errorf("%+v", e)
			}
			w.Unsignalled()
			for _, pid := range []uint32{100, 101, 103, 105, 106, tt.pid} {
				if now := w.K.Proc(pid).Session; now != from {
					t.Errorf("pid %d is in session %v", pid, now)
				}
			}
		})
	}
}

// The end reaches the process and what it started through a dead one, and no sibling:
// for the user, for root, and for a member in another branch.
func TestBranchEnd(t *testing.T) {
	for _, who := range []string{"user", "root", "105"} {
		t.Run(who, func(t *testing.T) {
			w, s, _ := household(t)
			plan := daemontest.Into[api.Plan](w.Do(who, "POST", "/v1/processes/"+w.Ref(101)+"/plan", nil), http.StatusOK)
			var planned []int
			for _, p := range plan.Processes {
				planned = append(planned, p.PID)
			}
			if plan.Session != s.ID || plan.RefusedBy != "" || plan.Token == "" || !slices.Equal(planned, []int{101, 103}) {
				t.Fatalf("plan %+v", plan)
			}
			w.In(map[uint32]string{101: s.ID}) // a plan moves nothing
			w.K.Fork(101, 104, "lngtest-more") // the same program: a program that forks is planned with its forks
			r := daemontest.Into[api.Report](w.Do(who, "POST", "/v1/processes/"+w.Ref(101)+"/end", api.EndRequest{PlanToken: plan.Token}), http.StatusAccepted)
			if r.Session == s.ID || r.EndReason != "end" || len(r.Also) != 0 {
				t.Errorf("report %+v", r)
			}
			r = w.Receipt(r.Session)
			if got := daemontest.Outcomes(r); r.Verdict != "clean" || len(got) != 3 || got[101] != "kill" || got[103] != "kill" || got[104] != "kill" {
				t.Errorf("verdict %s, outcomes %v", r.Verdict, got)
			}
			w.Survive([]uint32{100, 101, 103, 104, 105, 106}, 100, 105, 106)
			if x := daemontest.Get[api.Session](w, "user", "/v1/sessions/household"); x.State != "active" {
				t.Errorf("the session: %+v", x)
			}
		})
	}
}

// A dead process is named; what it started lives.
func TestBranchOfDeadProcess(t *testing.T) {
	w, _, dead := household(t)
	daemontest.Into[api.Report](w.Do("user", "POST", "/v1/processes/"+dead+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
	w.Survive([]uint32{100, 101, 103, 105, 106}, 100, 101, 105, 106)
	w.Do("user", "POST", "/v1/processes/"+dead+"/end", api.EndRequest{Now: true}).Refused(api.CodeNotFound)
}

// Sessions that the branch opened end with it: their records cannot be moved. One that
// a sibling opened does not.
func TestBranchWithNestedSessions(t *testing.T) {
	w, s, _ := household(t)
	w.Fork(103, 110, 1000, "lngtest-110")
	w.K.Fork(110, 111, "lngtest-111")
	adopt := func(pid uint32) string {
		x := daemontest.Into[api.Session](w.Adopt("root", pid), http.StatusCreated)
		if x.Parent != s.ID {
			t.Fatalf("%+v", x)
		}
		return x.ID
	}
	mine, siblings := adopt(110), adopt(106)
	r := daemontest.Into[api.Report](w.Do("user", "POST", "/v1/processes/"+w.Ref(101)+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
	if !slices.Equal(r.Also, []string{mine}) {
		t.Errorf("also %v, want %s and not %s", r.Also, mine, siblings)
	}
	w.Survive([]uint32{100, 101, 103, 105, 106, 110, 111}, 100, 105, 106)
	if r := w.Receipt(mine); r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}

// Ends of branches that overlap are both answered: the second one ends what is left, or says why
// there is nothing to end.
func TestBranchesOverlap(t *testing.T) {
	for range 10 {
		w, s, _ := household(t)
		refs := map[string]string{"user": w.Ref(101), "root": w.Ref(103)} // 103 is in the branch of 101
		var wg sync.WaitGroup
		for who, ref := range refs {
			wg.Go(func() {
				switch a := w.Do(who, "POST", "/v1/processes/"+ref+"/end", api.EndRequest{Now: true}); a.Status {
				case http.StatusAccepted:
					w.Receipt(daemontest.Into[api.Report](a, a.Status).Session)
				case http.StatusNotFound, http.StatusConflict:
				default:
					t.Errorf("%s: %d %s", who, a.Status, a.Body)
				}
			})
		}
		wg.Wait()
		w.Survive([]uint32{100, 101, 103, 105, 106}, 100, 105, 106)
		if x := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+s.ID); x.State != "active" {
			t.Errorf("the session: %+v", x)
		}
		w.Stop()
	}
}
