//go:build linux

package attribution_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
)

// parallel is an office in which call one started 120, which is dead and started 121 to 123; call two
// 130; and one of both 140, which started 141. In call one 122 is an agent itself: its call inner
// started 125. 150 belongs to no call.
func parallel(t *testing.T) (w *world, s *api.Session) {
	t.Helper()
	w, s = office(t)
	w.mark("103", "begin", "one", 101)
	w.forks(101, 120, 120, 121, 120, 122, 120, 123, 122, 124)
	w.mark("124", "begin", "inner", 122)
	w.forks(122, 125)
	w.mark("103", "begin", "two", 101)
	w.forks(101, 140, 140, 141)
	w.mark("103", "end", "one", 101)
	w.forks(101, 130)
	w.mark("103", "end", "", 101)
	w.forks(101, 150)
	w.K.Exit(120, 0)
	w.K.AllRead()
	return w, s
}

var household = []uint32{100, 101, 102, 103, 121, 122, 123, 124, 125, 130, 140, 141, 150}

func (w *world) left(who string) *api.Orphans {
	w.Helper()
	return daemontest.Get[api.Orphans](w, who, "/v1/orphans?session=office")
}

// What is alive is listed by call: its CPUs, its memory, its ports, and what runs, equal commands counted.
// Several calls that may have started the same processes are named together.
func TestCallsLeft(t *testing.T) {
	w, s := parallel(t)
	for _, pid := range []uint32{121, 123} {
		w.K.Exec(pid, "/bin/yes", "yes\x00")
	}
	w.K.Exec(130, "/bin/server", strings.Repeat("x", 500)+"\x00")
	w.K.Listen(123, 7, "127.0.0.1:8080")
	w.Look()
	w.K.Advance(1e9)
	for _, pid := range []uint32{121, 123} {
		w.K.Edit(pid, func(p *kerneltest.Proc) { p.CPUTime += 5e8; p.RSS = 1 << 20 })
	}
	w.Look()
	d := w.left("user")
	var got []string
	for _, c := range d.Calls {
		var ids []string
		for _, x := range c.Calls {
			ids = append(ids, x.ID)
			if x.Agent == nil || !x.Claimed || x.Began == nil || (x.Ended == nil) != (x.ID == "inner") {
				t.Errorf("%+v", x)
			}
		}
		var runs []string
		for _, x := range c.Commands {
			runs = append(runs, fmt.Sprintf("%d %.4s", x.Processes, strings.Join(x.Argv, " ")))
		}
		got = append(got, fmt.Sprintf("%s %q %v of %s: %d, %.1f CPUs, %d B, %v, %q", c.Session, ids, c.Ambiguous, c.Agent, c.Processes, c.CPUs, c.RSSBytes, c.Ports, runs))
	}
	want := []string{
		s.ID + ` ["one"] false of lngtest-101: 4, 1.0 CPUs, 2105344 B, [8080], ["2 yes" "2 lngt"]`,
		s.ID + ` ["one" "two"] true of lngtest-101: 2, 0.0 CPUs, 8192 B, [], ["2 lngt"]`,
		s.ID + ` ["two"] false of lngtest-101: 1, 0.0 CPUs, 4096 B, [], ["1 xxxx"]`,
		s.ID + ` ["inner"] false of lngtest-122: 1, 0.0 CPUs, 4096 B, [], ["1 lngt"]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := d.Calls[2].Commands[0]; !c.ArgvTruncated || len(c.Argv[0]) > 160 {
		t.Errorf("%+v", c)
	}
	if x := daemontest.Get[api.Session](w, "user", "/v1/sessions/office"); fmt.Sprintf("%.1f", x.CPUs) != "1.0" {
		t.Errorf("the session uses %v CPUs", x.CPUs)
	}
	w.Do("else", "GET", "/v1/orphans?session=office", nil).Refused(api.CodeNotFound)
	if d := daemontest.Get[api.Orphans](w, "else", "/v1/orphans"); len(d.Calls) != 0 {
		t.Errorf("another user sees %+v", d.Calls)
	}
	if d := w.left("150"); len(d.Calls) != 4 {
		t.Errorf("a member sees %+v", d.Calls)
	}
}

// What processes of a call used stays with the call after their exits: in the reply to the mark of its end, in that
// event, in the list while another one lives, and in the receipt; after restarts of the daemon, too. What one of
// several calls has started counts for none.
func TestCallAccounts(t *testing.T) {
	w, s := office(t, daemontest.WithBoot("b1"))
	uses := func(pid uint32, cpu time.Duration) {
		w.K.Edit(pid, func(p *kerneltest.Proc) { p.CPUTime, p.RSS = uint64(cpu), uint64(pid)<<20 })
		w.K.Exit(pid, 0)
	}
	w.mark("103", "begin", "one", 101)
	w.forks(101, 120, 120, 121, 101, 122)
	uses(122, time.Second)
	uses(121, 2*time.Second)
	w.mark("103", "begin", "two", 101)
	w.forks(101, 130)
	uses(130, 9*time.Second)
	want := api.Used{Processes: 2, CPUSeconds: 3, PeakRSSBytes: 122 << 20, Largest: "lngtest-122"}
	if got := w.mark("103", "end", "one", 101).Calls[0].Used; got == nil || *got != want {
		t.Errorf("in the mark: %+v", got)
	}
	w.forks(101, 140)
	uses(140, time.Second)
	for range 2 {
		w.K.AllRead()
		w.Restart()
		if d := w.left("user").Calls; len(d) != 1 || d[0].CPUSeconds != 3 || d[0].Calls[0].Used == nil || *d[0].Calls[0].Used != want {
			t.Errorf("in the list: %+v", d)
		}
	}
	uses(120, 5*time.Second)
	want.Processes, want.CPUSeconds = 3, 8
	w.K.Exit(100, 0)
	r := w.Receipt(s.ID)
	if len(r.Calls) != 2 || *r.Calls[0].Used != want || r.Calls[1].ID != "two" || r.Calls[1].Used.Processes != 1 {
		t.Errorf("in the receipt: %+v", r.Calls)
	}
	w.Restart()
	events := w.Events("user", "?session=office&since=10000h&type=mark")
	ev := events.Next()
	for ev != nil && (ev.Call == nil || ev.Call.Ended == nil) {
		ev = events.Next()
	}
	if ev == nil || ev.Call.Used == nil || ev.Call.Used.Processes != 2 || ev.Call.Used.Largest != "lngtest-122" {
		t.Errorf("in the event: %+v", ev)
	}
}

// A receipt has the calls that used most, however many there were.
func TestReceiptOfManyCalls(t *testing.T) {
	w, s := office(t)
	for n := range uint32(60) {
		w.mark("103", "begin", fmt.Sprint(n), 101)
		w.forks(101, 1000+n)
		w.K.Edit(1000+n, func(p *kerneltest.Proc) { p.CPUTime = uint64(n%20) * 1e9 })
		w.K.Exit(1000+n, 0)
		w.mark("103", "end", "", 101)
		w.K.Advance(1e8)
	}
	w.K.Exit(100, 0)
	got := ""
	for _, c := range w.Receipt(s.ID).Calls {
		got += fmt.Sprint(" ", c.Used.CPUSeconds)
	}
	if got != " 19 19 19 18 18 18 17 17 17 16 16 16 15 15 15 14" {
		t.Error(got)
	}
}

// An id that the agent uses again is the same call: from the first beginning on.
func TestCallUsedAgain(t *testing.T) {
	w, _ := office(t)
	for _, pid := range []uint32{120, 121} {
		w.mark("103", "begin", "one", 101)
		w.forks(101, pid)
		w.K.AllRead()
		w.K.Advance(1e9)
		w.mark("103", "end", "one", 101)
	}
	d := w.left("user")
	if len(d.Calls) != 1 || d.Calls[0].Processes != 2 || d.Calls[0].Calls[0].Ended.Sub(*d.Calls[0].Calls[0].Began).Round(time.Second) != 2*time.Second {
		t.Errorf("%+v", d.Calls)
	}
}

// Whatever ids members choose, a session's calls take a bounded part of the answer.
func TestCallsBounded(t *testing.T) {
	w, _ := office(t)
	const calls = 150
	for n := range uint32(calls) {
		id := fmt.Sprintf("%0128d", n)
		w.mark("103", "begin", id, 101)
		w.forks(101, 1000+n)
		w.K.AllRead()
		w.mark("103", "end", id, 101)
		w.K.Advance(1e8)
	}
	reply := w.Do("user", "GET", "/v1/orphans?session=office", nil)
	d := daemontest.Into[api.Orphans](reply, http.StatusOK)
	if len(d.Calls) == 0 || len(d.Calls)+d.MoreCalls != calls || d.MoreCalls == 0 || len(reply.Body) > 64<<10 {
		t.Errorf("%d calls and %d more in %d bytes", len(d.Calls), d.MoreCalls, len(reply.Body))
	}
}

// No end of a call signals or moves a process when a guard, a right, a plan, or the claim of a parallel
// call refuses it.
func TestEndCallRefused(t *testing.T) {
	w, s := parallel(t)
	plan := daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/processes/"+w.Ref(101)+"/plan", api.PlanRequest{Call: "one"}), http.StatusOK)
	w.K.Fork(123, 126, "lngtest-126")
	w.K.Exec(126, "/bin/new", "new\x00")
	w.K.Fork(123, 127, "lngtest-127")
	w.Proc(127, 123, 1000, "lngtest-127")
	w.K.AllRead()
	w.mark("103", "begin", "three", 101)
	w.mark("103", "begin", "four", 101)
	w.forks(101, 160)
	w.K.AllRead()
	all := append(slices.Clone(household), 126, 127, 160)
	for _, tt := range []struct {
		what, who string
		agent     uint32
		req       api.EndRequest
		code, say string
	}{
		{"an unknown call", "user", 101, api.EndRequest{Call: "none"}, api.CodeNotFound, "what call none of pid 101 started: no process of it is alive"},
		{"a call of another agent", "user", 122, api.EndRequest{Call: "one"}, api.CodeNotFound, "no process of it"},
		{"that of a dead agent", "user", 102, api.EndRequest{Call: "one"}, api.CodeNotFound, "no process of it"},
		{"parallel calls only, by the agent", "150", 101, api.EndRequest{Call: "three"}, api.CodeGuarded, "several calls that may have started the same processes (1)"},
		{"parallel calls only, by root", "root", 101, api.EndRequest{Call: "four"}, api.CodeGuarded, "several calls"},
		{"a caller of the call", "127", 101, api.EndRequest{Call: "one"}, api.CodeGuarded, "the caller"},
		{"another user", "else", 101, api.EndRequest{Call: "one"}, api.CodeDenied, "uid 1000"},
		{"a plan that has changed", "user", 101, api.EndRequest{Call: "one", PlanToken: plan.Token}, api.CodeChanged, "pid 126 is not in the plan"},
		{"the plan of a call, for another one", "user", 101, api.EndRequest{Call: "two", PlanToken: plan.Token}, api.CodeChanged, "unknown"},
		{"the plan of a call, for the agent", "user", 101, api.EndRequest{PlanToken: plan.Token}, api.CodeChanged, "unknown"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if e := w.Do(tt.who, "POST", "/v1/processes/"+w.Ref(tt.agent)+"/end", tt.req).Refused(tt.code); !strings.Contains(e.Message, tt.say) {
				t.Errorf("%+v", e)
			}
			w.Unsignalled()
			w.Survive(all, all...)
			w.In(map[uint32]string{101: s.ID, 121: s.ID, 123: s.ID, 130: s.ID, 140: s.ID, 160: s.ID})
		})
	}
	w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Call: "one"}).Refused(api.CodeBadRequest)
	w.Unsignalled()
	p := daemontest.Into[api.Plan](w.Do("150", "POST", "/v1/processes/"+w.Ref(101)+"/plan", api.PlanRequest{Call: "three"}), http.StatusOK)
	if p.Token != "" || !strings.Contains(p.RefusedBy, "several calls") {
		t.Errorf("%+v", p)
	}
}

// The end of a call ends what only this call started, through dead processes, with the agents in it
// and what these started: for the user, for root, and for the agent. Nothing else is signalled, and the agent
// lives.
func TestEndCall(t *testing.T) {
	for _, who := range []string{"user", "root", "150"} {
		t.Run(who, func(t *testing.T) {
			w, s := parallel(t)
			path := "/v1/processes/" + w.Ref(101)
			plan := daemontest.Into[api.Plan](w.Do(who, "POST", path+"/plan", api.PlanRequest{Call: "one"}), http.StatusOK)
			var planned []int
			for _, p := range plan.Processes {
				planned = append(planned, p.PID)
			}
			if plan.Session != s.ID || plan.Call != "one" || plan.Token == "" || !slices.Equal(planned, []int{121, 122, 123, 124, 125}) ||
				plan.Ambiguous != 2 {
				t.Fatalf("%+v", plan)
			}
			w.In(map[uint32]string{121: s.ID, 125: s.ID}) // a plan moves nothing
			r := daemontest.Into[api.Report](w.Do(who, "POST", path+"/end", api.EndRequest{Call: "one", PlanToken: plan.Token}), http.StatusAccepted)
			if r = w.Receipt(r.Session); r.Name != "one" || r.Verdict != api.VerdictClean || len(r.Processes) != 5 {
				t.Errorf("%+v", r)
			}
			w.Survive(household, 100, 101, 102, 103, 130, 140, 141, 150)
			w.Do(who, "POST", path+"/end", api.EndRequest{Call: "one"}).Refused(api.CodeGuarded) // 140 may be of it
			daemontest.Into[api.Report](w.Do(who, "POST", path+"/end", api.EndRequest{Call: "two"}), http.StatusAccepted)
			w.Survive(household, 100, 101, 102, 103, 140, 141, 150)
			if x := daemontest.Get[api.Session](w, "user", "/v1/sessions/office"); x.State != api.StateActive {
				t.Errorf("%+v", x)
			}
		})
	}
}

// A daemon that was restarted knows which calls are over, and learns of the end of the others.
func TestCallsAfterRestart(t *testing.T) {
	w, _ := office(t, daemontest.WithBoot("b1"))
	w.mark("103", "begin", "old", 101)
	w.forks(101, 120, 101, 121)
	w.haveCalls(121, "old")
	w.Restart() // what was written of 121 says that the call is open
	w.mark("103", "end", "old", 101)
	w.mark("103", "begin", "one", 101)
	w.forks(101, 130, 101, 131)
	w.haveCalls(131, "one")
	w.Restart()
	ended := func() string {
		text := ""
		for _, c := range w.left("user").Calls {
			text += fmt.Sprintf("%s %d %v ", c.Calls[0].ID, c.Processes, c.Calls[0].Ended != nil)
		}
		return text
	}
	if got := ended(); got != "old 2 true one 2 false " {
		t.Errorf("after the restart: %s", got)
	}
	w.mark("103", "end", "one", 101)
	if got := ended(); got != "old 2 true one 2 true " {
		t.Errorf("after the end: %s", got)
	}
	w.mark("103", "begin", "two", 101)
	w.forks(101, 140)
	w.haveCalls(140, "two")
	daemontest.Into[api.Session](w.Do("101", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 140}}), http.StatusCreated)
	w.Restart()
	if c := daemontest.Get[api.Process](w, "user", "/v1/processes/140").Calls; len(c) != 1 || c[0].Ended != nil {
		t.Errorf("a call of the session around: %+v", c)
	}
	w.mark("103", "end", "two", 101)
	if c := daemontest.Get[api.Process](w, "user", "/v1/processes/140").Calls; len(c) != 1 || c[0].Ended == nil {
		t.Errorf("a call of the session around, after its end: %+v", c)
	}
}

// A hook, and the shell below which it runs, belong to no call, whichever was open when the agent started them:
// a call has not left what reports its end.
func TestHooksAreOfNoCall(t *testing.T) {
	w, s := office(t, daemontest.WithBoot("b1"))
	w.mark("103", "begin", "one", 101)
	w.forks(101, 120, 101, 130, 130, 131)
	w.haveCalls(131, "one")
	w.mark("131", "end", "", 101)
	w.haveCalls(131)
	w.haveCalls(130)
	w.haveCalls(120, "one")
	if c := w.left("user").Calls; len(c) != 1 || c[0].Processes != 1 {
		t.Errorf("%+v", c)
	}
	w.K.Exit(100, 0)
	w.Receipt(s.ID)
	w.Restart()
	for _, n := range daemontest.Get[api.Tree](w, "user", "/v1/sessions/office/tree?dead=all").Nodes {
		if (n.PID == 120) != (len(n.Calls) == 1) {
			t.Errorf("the history has %d in %+v", n.PID, n.Calls)
		}
	}
}
