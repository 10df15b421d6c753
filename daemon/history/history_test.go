//go:build linux

package history_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// ended makes a session of user with one child, a secret and a leftover, and ends it.
func ended(w *daemontest.Daemon, pid uint32, name string) *api.Report {
	w.Helper()
	s := w.Session("user", pid, api.NewSession{Name: name, GraceMS: daemontest.MS(0)})
	w.K.Exec(pid, "/bin/lngtest", "lngtest\x00--password\x00hunter2\x00")
	w.K.Fork(pid, pid+1, "lngtest-child")
	w.K.Exec(pid+1, "/bin/lngtest-child", "child\x00--token=hunter2\x00")
	w.K.Exit(pid, 3<<8)
	return w.Receipt(s.ID)
}

// The command that a root began its session with is read as its present one is: without secrets
// by the group and from the history, and by the owner as it was while the session lives.
func TestHistoryFirstCommand(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	s := w.Session("user", 100, api.NewSession{Name: "job", GraceMS: daemontest.MS(0)})
	w.K.Exec(100, "/bin/lngtest", "lngtest\x00--password\x00hunter2\x00")
	w.K.Advance(time.Millisecond)
	w.K.Exec(100, "/bin/lngtest-2", "second\x00")
	w.K.AllRead()
	first := func(who, want string) {
		t.Helper()
		root := daemontest.Get[api.Session](w, who, "/v1/sessions/job").Root
		if fmt.Sprint(root.FirstArgv) != want || fmt.Sprint(root.Argv) != "[second]" {
			t.Errorf("%s reads %q, then %q; want %s", who, root.FirstArgv, root.Argv, want)
		}
	}
	first("user", "[lngtest --password hunter2]")
	first("reader", "[lngtest --password [redacted]]")
	w.K.Exit(100, 0)
	w.Receipt(s.ID)
	w.Restart()
	for _, who := range []string{"user", "reader", "root"} {
		first(who, "[lngtest --password [redacted]]")
	}
}

// A time limit that the owner of a session keeps is the reason of its end: in the receipt, in the events and in the
// history, also if another daemon opened the session.
func TestHistoryTimeout(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	for i, ms := range []int64{1000, 2000} {
		w.Session("user", uint32(100+i), api.NewSession{Name: fmt.Sprint("limit-", ms), GraceMS: daemontest.MS(0), TimeoutMS: ms})
	}
	w.Restart()
	events := w.Events("user", "?type=session")
	w.K.Advance(time.Second)
	for i, want := range []string{"max_lifetime", "root_exit"} {
		name := fmt.Sprintf("limit-%d000", i+1)
		w.K.Exit(uint32(100+i), 0)
		require.Equal(t, events.Next().Reason, want)
		require.Equal(t, w.Receipt(name).EndReason, want)
		w.Restart()
		require.Equal(t, daemontest.Get[api.Session](w, "user", "/v1/sessions/"+name).EndReason, want)
		require.Equal(t, daemontest.Get[api.Report](w, "user", "/v1/sessions/"+name+"/report").EndReason, want)
		events = w.Events("user", "?type=session")
	}
}

// TestReportedOnce: the kernel's record of a session may outlive the daemon that has reported its end. The next daemon
// releases it, and does not report again.
func TestReportedOnce(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	w.K.Fail("Release", errors.New("refused"))
	report := ended(w, 100, "job")
	w.Restart()
	if n := len(daemontest.Get[api.Sessions](w, "user", "/v1/sessions").Items); n > 0 {
		t.Errorf("%d sessions are live again", n)
	}
	w.K.Fail("Release", nil)
	w.Resync(registry.CauseMember)
	if all := w.K.Records(); len(all) > 0 {
		t.Errorf("not released: %+v", all)
	}
	if r := daemontest.Get[api.Report](w, "user", "/v1/sessions/"+report.Session+"/report"); r.Killed != report.Killed {
		t.Errorf("reported again: %+v", r)
	}
}

// TestGapOutlivesTheDaemon: a daemon that lost events tells the next one that a receipt may lack deaths.
func TestGapOutlivesTheDaemon(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	s := w.Session("user", 100, api.NewSession{Name: "job", GraceMS: daemontest.MS(0)})
	w.K.Lose(1)
	w.Restart()
	w.K.Exit(100, 0)
	if r := w.Receipt(s.ID); !r.Truncated {
		t.Errorf("the receipt is whole: %+v", r)
	}
}

// A daemon that never knew an ended session finds it: with its receipt, its tree, in
// the lists, without its secrets.
func TestHistory(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	report := ended(w, 100, "job")
	if report.Verdict != "clean" {
		t.Fatalf("%+v", report)
	}
	w.Restart()
	for _, word := range []string{report.Session, "job"} {
		s := daemontest.Get[api.Session](w, "user", "/v1/sessions/"+word)
		if s.ID != report.Session || s.State != "ended" || s.Verdict != "clean" || s.EndReason != "root_exit" || s.Ended == nil || s.Peak == 0 || s.Root == nil ||
			fmt.Sprint(s.Root.Argv) != "[lngtest --password [redacted]]" {
			t.Errorf("%+v", s)
		}
		r := daemontest.Get[api.Report](w, "user", "/v1/sessions/"+word+"/report")
		if r.Verdict != "clean" || len(r.Processes) != 1 || r.Processes[0].PID != 101 || r.Processes[0].Outcome != "kill" ||
			fmt.Sprint(r.Processes[0].Argv) != "[child --token=[redacted]]" {
			t.Errorf("%+v", r)
		}
		tree := daemontest.Get[api.Tree](w, "user", "/v1/sessions/"+word+"/tree")
		if len(tree.Nodes) != 2 || len(tree.Roots) != 1 || tree.Nodes[0].PID != 100 || *tree.Nodes[0].ExitCode != 3 || len(tree.Nodes[0].Children) != 1 ||
			tree.Nodes[1].Signal != "SIGKILL" || tree.Nodes[1].State == "live" {
			t.Errorf("%+v", tree)
		}
		if plan := daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/sessions/"+word+"/plan", nil), http.StatusOK); plan.Session != report.Session ||
			plan.State != "ended" || plan.Token != "" || plan.Processes == nil || len(plan.Processes) != 0 {
			t.Errorf("%+v", plan)
		}
		end := daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/"+word+"/end", nil), http.StatusOK)
		if end.Verdict != "clean" {
			t.Errorf("%+v", end)
		}
	}
	for _, path := range []string{"/v1/sessions?state=ended", "/v1/sessions?state=all", "/v1/sessions?state=ended&name=job", "/v1/history"} {
		for who, n := range map[string]int{"user": 1, "root": 1, "reader": 1, "else": 0} {
			if d := daemontest.Get[api.Sessions](w, who, path); len(d.Items) != n {
				t.Errorf("%s %s: %+v", who, path, d)
			}
		}
	}
	d := daemontest.Get[api.Sessions](w, "reader", "/v1/history")
	if fmt.Sprint(d.Items[0].Root.Argv) != "[lngtest --password [redacted]]" {
		t.Errorf("argv of another uid: %+v", d.Items[0].Root)
	}
	for _, path := range []string{"", "/report", "/tree"} {
		w.Do("else", "GET", "/v1/sessions/job"+path, nil).Refused(api.CodeNotFound)
	}
	w.Do("else", "POST", "/v1/sessions/job/end", nil).Refused(api.CodeNotFound)
	w.Do("else", "POST", "/v1/sessions/job/plan", nil).Refused(api.CodeNotFound)
	w.Do("user", "GET", "/v1/sessions/nosuch", nil).Refused(api.CodeNotFound)
	hidden(w, report.Session)
	w.Halt()
	hidden(w, "")
}

// hidden checks that the secret is neither in the file, its log and the audit log, nor in the events of a session, which
// are compressed there: root gets them as they are.
func hidden(w *daemontest.Daemon, session string) {
	w.Helper()
	files, _ := filepath.Glob(w.Instance.History + "*")
	if len(files) == 0 || session != "" && len(files) < 2 {
		w.Fatalf("on disk: %q", files)
	}
	for _, f := range append(files, w.Instance.Audit) {
		if b, err := os.ReadFile(f); err != nil || strings.Contains(string(b), "hunter2") {
			w.Errorf("%s has the secret: %v", f, err)
		}
	}
	if session == "" {
		return
	}
	scan, end := w.Open("root", "/v1/events?since=1970-01-02T00:00:00Z&session="+session)
	defer end()
	types := make(map[api.EventType]int)
	for scan.Scan() {
		var ev api.Event
		require.NoError(w, json.Unmarshal(scan.Bytes(), &ev))
		if strings.Contains(scan.Text(), "hunter2") {
			w.Errorf("the secret is in %s", scan.Text())
		}
		if strings.Contains(scan.Text(), "[redacted]") {
			types[ev.Type]++
		}
	}
	for _, t := range []api.EventType{api.EventFork, api.EventExec, api.EventExit, api.EventReaped, api.EventSession} {
		if types[t] == 0 {
			w.Errorf("no %s has arguments: %v", t, types)
		}
	}
}

// A process of a session that only the history has is found by PID, as long as the PID
// is not reused, and by PID@START.
func TestHistoryOfProcesses(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	report := ended(w, 100, "job")
	child := report.Processes[0].Ref
	ended(w, 200, "other")
	w.Restart()
	for _, word := range []string{"101", child.String()} {
		d := daemontest.Get[api.Why](w, "user", "/v1/why?ref="+word)
		if d.Process.Ref != child || d.Process.Signal != "SIGKILL" || fmt.Sprint(d.Process.Argv) != "[child --token=[redacted]]" ||
			d.Session == nil || d.Session.ID != report.Session || d.Session.State != "ended" || len(d.Edges) != 2 ||
			d.Edges[0].Creator.PID != 100 || d.Edges[0].Creator.Alive || d.Edges[0].Creator.Exited == nil || d.Edges[1].Kind != "root" {
			t.Errorf("%s: %+v", word, d)
		}
		p := daemontest.Get[api.Process](w, "user", "/v1/processes/"+word)
		if p.Kind != "process" || p.Ref != child || p.State == "live" || p.Session != report.Session {
			t.Errorf("%s: %+v", word, p)
		}
		if p := daemontest.Get[api.Process](w, "reader", "/v1/processes/"+word); fmt.Sprint(p.Argv) != "[child --token=[redacted]]" {
			t.Errorf("argv of another uid: %+v", p)
		}
		w.Do("else", "GET", "/v1/why?ref="+word, nil).Refused(api.CodeDenied)
		w.Do("else", "GET", "/v1/processes/"+word, nil).Refused(api.CodeDenied)
	}
	w.Add(101, daemontest.Shell, 1000, "lngtest-another")
	if p := daemontest.Get[api.Process](w, "user", "/v1/processes/101"); p.Ref == child || p.State != "live" {
		t.Errorf("the PID is another's: %+v", p)
	}
	if p := daemontest.Get[api.Process](w, "user", "/v1/processes/"+child.String()); p.Ref != child {
		t.Errorf("%+v", p)
	}
	for word, code := range map[string]string{"101@5": api.CodeIdentity, "999": api.CodeNotFound, "999@5": api.CodeNotFound} {
		e := w.Do("user", "GET", "/v1/why?ref="+word, nil).Refused(code)
		if code == api.CodeNotFound && !strings.Contains(e.Hint, "lineage history") {
			t.Errorf("%s: %+v", word, e)
		}
	}
	// A verb that signals does not find dead processes.
	w.Do("user", "POST", "/v1/processes/"+child.String()+"/kill", map[string]string{"signal": "TERM"}).Refused(api.CodeIdentity)
}

// Members see sessions nested in their own, and no history.
func TestHistoryOfMembers(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	ended(w, 200, "other")
	s := w.Session("user", 100, api.NewSession{Name: "mine"})
	w.Fork(100, 101, 1000, "lngtest-member")
	w.Do("101", "GET", "/v1/history", nil).Refused(api.CodeDenied)
	w.Do("101", "GET", "/v1/sessions/other", nil).Refused(api.CodeNotFound)
	if d := daemontest.Get[api.Sessions](w, "101", "/v1/sessions?state=all"); len(d.Items) != 1 || d.Items[0].ID != s.ID {
		t.Errorf("%+v", d)
	}
	// An id of another boot does not match the sessions of this one.
	for boot, want := range map[string]bool{"b1": true, "b0": false} {
		row := history.Session{Boot: boot, Parent: w.ID(s.ID)}
		scope := history.NewArchive(w.Service.Recorder, w.Service.Access).Scope(t.Context(), &row)
		if d := access.Decide(access.Caller{Member: w.ID(s.ID)}, access.End, scope); d.Allow != want {
			t.Errorf("nested in boot %s: %+v, want %v", boot, d, want)
		}
	}
	w.Restart()
	w.Do("101", "GET", "/v1/sessions/other", nil).Refused(api.CodeNotFound)
}

func TestHistoryPages(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	for n := range uint32(5) {
		ended(w, 100+10*n, fmt.Sprint("job", n))
		w.K.Advance(time.Second)
		if n == 2 {
			w.Restart() // some in memory, some not
		}
	}
	var names []string
	path := "/v1/history?limit=2"
	for path != "" {
		d := daemontest.Get[api.Sessions](w, "user", path)
		for _, s := range d.Items {
			names = append(names, s.Name)
		}
		if path = ""; d.Next != "" {
			path = "/v1/history?limit=2&next=" + url.QueryEscape(d.Next)
		}
	}
	require.Equal(t, strings.Join(names, " "), "job4 job3 job2 job1 job0")
	d := daemontest.Get[api.Sessions](w, "user", "/v1/history?since=2026-01-02T04:04:06.5Z&until=2026-01-02T04:04:08.5Z")
	require.Equal(t, len(d.Items), 2)
}

func TestHistoryRefused(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	for q, want := range map[string]string{
		"since=tomorrow": `invalid since "tomorrow"`, "until=-5m": `invalid until "-5m"`, "since=1m&until=2m": "is after until", "limit=0": "limit", "limit=1001": "limit",
		"limit=x": "limit", "next=x": "next", "next=MS4y&x=1": "unknown parameter", "sinse=1m": `did you mean "since"?`,
		"since=1m&since=2m": "given twice", "next=LTEuMg": "next",
	} {
		e := w.Do("root", "GET", "/v1/history?"+q, nil).Refused(api.CodeBadRequest)
		if !strings.Contains(e.Message+e.Hint, want) {
			t.Errorf("%s: %s; %s", q, e.Message, e.Hint)
		}
	}
	for _, q := range []string{"since=tomorrow", "since=1m&until=2m", "until=x"} {
		w.Do("root", "GET", "/v1/events?"+q, nil).Refused(api.CodeBadRequest)
	}
}

// A daemon continues with what the previous one knew of a live session: which caller
// ended it, how members died, its token, and what they ran.
func TestRemember(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	s := w.Session("user", 100, api.NewSession{Name: "job", GraceMS: daemontest.MS(600_000)})
	w.K.Exec(100, "/bin/lngtest", "lngtest\x00-v\x00")
	w.K.Fork(100, 101, "lngtest-child")
	w.K.Fork(101, 102, "lngtest-child")
	w.K.Edit(102, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	w.K.Exec(102, "/bin/lngtest-child", "child\x00-x\x00")
	w.K.Exit(101, 0)
	w.K.Fork(100, 103, "lngtest-child")
	token := func() (sum string) {
		var all []registry.Part
		_ = w.Service.Registry.Read(func(v registry.View) { all = v.Memory(v.Session(w.ID(s.ID))) })
		text, err := registry.EncodeMemory(all, w.Service.Rules.Redact)
		require.NoError(t, err)
		return daemontest.Into[struct{ Token string }](daemontest.Reply{T: t, Status: http.StatusOK, Body: text}, http.StatusOK).Token
	}
	want := token()
	daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/job/end", api.EndRequest{}), http.StatusAccepted)
	w.Restart()
	if got := token(); got != want || want == "" {
		t.Error("the token is forgotten")
	}
	tree := daemontest.Get[api.Tree](w, "user", "/v1/sessions/job/tree")
	if len(tree.Nodes) != 3 || tree.Nodes[0].PID != 100 || tree.Nodes[1].PID != 101 || tree.Nodes[2].PID != 102 ||
		fmt.Sprint(tree.Nodes[2].Argv) != "[child -x]" || tree.Nodes[2].Exe != "/bin/lngtest-child" || !tree.Nodes[2].Orphan {
		b, _ := json.Marshal(tree)
		t.Errorf("%s", b)
	}
	why := daemontest.Get[api.Why](w, "user", "/v1/why?ref=102")
	if len(why.Edges) != 3 || why.Edges[1].Child.PID != 101 {
		t.Errorf("%+v", why.Edges)
	}
	r := w.End("user", s.ID)
	outcomes := daemontest.Outcomes(r)
	if r.Ended == nil || r.EndedBy == nil || r.EndedBy.UID != 1000 || r.EndedBy.PID != daemontest.User || r.EndReason != "end" ||
		fmt.Sprint(outcomes) != "map[100:term 102:kill 103:term]" {
		t.Errorf("%+v %v", r.EndedBy, outcomes)
	}
}

// After a restart of the host nothing lives, and history says why.
func TestReboot(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	s := w.Session("user", 100, api.NewSession{Name: "job"})
	w.K.Fork(100, 101, "lngtest-child")
	w.Applied()
	w.Stop()
	daemontest.WithBoot("b2")(w)
	w.Forget()
	w.Start()
	var r *api.Report
	w.Until(func() bool {
		a := w.Do("user", "GET", "/v1/sessions/"+s.ID+"/report", nil)
		if a.Status == http.StatusOK {
			r = daemontest.Into[api.Report](a, http.StatusOK)
		}
		return r != nil
	})
	if r.EndReason != "reboot" || r.Session != s.ID || r.Verdict != "clean" || !r.ConfirmedEmpty || !strings.Contains(r.VerdictWhy, "restarted") {
		t.Errorf("%+v", r)
	}
	d := daemontest.Get[api.Sessions](w, "user", "/v1/history")
	if len(d.Items) != 1 || d.Items[0].State != "ended" || d.Items[0].Verdict != "clean" || d.Items[0].Ended != nil || d.Items[0].Live != 0 {
		t.Errorf("%+v", d.Items)
	}
	tree := daemontest.Get[api.Tree](w, "user", "/v1/sessions/job/tree")
	if len(tree.Nodes) != 2 || tree.Nodes[0].State == "live" || tree.Nodes[1].State == "live" {
		t.Errorf("%+v", tree.Nodes)
	}
}

// A record that disappeared while no daemon ran proves nothing.
func TestUntracked(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	w.Session("user", 100, api.NewSession{Name: "job"})
	w.Session("user", 200, api.NewSession{Name: "asked", GraceMS: daemontest.MS(600_000)})
	w.K.Edit(200, func(p *kerneltest.Proc) { p.IgnoreTerm = true })
	daemontest.Into[api.Report](w.Do("user", "POST", "/v1/sessions/asked/end", api.EndRequest{}), http.StatusAccepted)
	w.Stop()
	w.Forget()
	w.Start()
	for _, name := range []string{"job", "asked"} {
		w.Until(func() bool { return w.Do("user", "GET", "/v1/sessions/"+name+"/report", nil).Status == http.StatusOK })
	}
	r := daemontest.Get[api.Report](w, "user", "/v1/sessions/job/report")
	if r.EndReason != "untracked" || r.Verdict != "unknown" || r.ConfirmedEmpty || r.EndedBy != nil {
		t.Errorf("%+v", r)
	}
	if by := daemontest.Get[api.Report](w, "user", "/v1/sessions/asked/report").EndedBy; by == nil || by.PID != daemontest.User {
		t.Errorf("ended by %+v", by)
	}
}

func stream(w *daemontest.Daemon, who, query string) (all []api.Event, reason string) {
	w.Helper()
	l := w.Events(who, "?"+query)
	for ev := l.Next(); ev != nil; ev = l.Next() {
		if ev.Kind == "end" {
			return all, ev.Reason
		}
		all = append(all, *ev)
	}
	w.Fatal("no end")
	return nil, ""
}

// Older events come from the history, without a gap up to the present.
func TestEventsOfThePast(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	first := w.Service.Ring.End()
	report := ended(w, 100, "job")
	w.K.Advance(time.Second) // numbers follow the clock
	w.Restart()
	w.K.Advance(time.Hour)
	second := ended(w, 200, "job2")
	w.K.Advance(time.Second)
	w.Restart() // all of it comes from the history, none of it from the ring
	describe := func(all []api.Event) string {
		var b strings.Builder
		last := api.U64(0)
		for _, ev := range all {
			if ev.Seq != 0 {
				if ev.Seq <= last {
					t.Errorf("%d after %d", ev.Seq, last)
				}
				last = ev.Seq
			}
			fmt.Fprintf(&b, "%s", ev.Type)
			if ev.Process != nil {
				fmt.Fprintf(&b, ":%d", ev.Process.PID)
			}
			b.WriteString(ev.Where + " ")
		}
		return b.String()
	}
	const before = "exec:100 fork:101 exec:101 exit:100 session exit:101 session "
	const after = "fork:200 exec:200 fork:201 exec:201 exit:200 session exit:201 session "
	for query, want := range map[string]string{
		"since=2026-01-02T04:00:00Z&until=2026-01-02T06:00:00Z":  "losthistory fork:100 " + before + after,
		"since=2026-01-02T05:00:00Z&until=2026-01-02T06:00:00Z":  after,
		"session=job&since=2026-01-02T04:00:00Z":                 "losthistory fork:100 " + before,
		"session=job&since=2026-01-02T04:00:00Z&type=fork":       "losthistory fork:100 fork:101 ",
		"since=2026-01-02T04:00:00Z&until=2026-01-02T05:00:00Z":  "losthistory fork:100 " + before,
		"session=job2&since=2026-01-02T05:00:00Z":                after,
		fmt.Sprintf("from=%d&until=2026-01-02T06:00:00Z", first): "fork:100 " + before + after,
	} {
		all, reason := stream(w, "user", query)
		got := describe(all)
		got = strings.NewReplacer("reaped:100 ", "", "reaped:101 ", "", "reaped:200 ", "", "reaped:201 ", "").Replace(got)
		if got != want || (reason != "until") != strings.Contains(query, "session=") {
			t.Errorf("%s\n got %s, %s\nwant %s", query, got, reason, want)
		}
	}
	if all, _ := stream(w, "else", "since=2026-01-02T05:00:00Z&until=2026-01-02T06:00:00Z"); len(all) != 0 {
		t.Errorf("another uid sees %+v", all)
	}
	all, _ := stream(w, "reader", "since=2026-01-02T04:30:00Z&until=2026-01-02T06:00:00Z&type=exec")
	for _, ev := range all {
		if ev.Process != nil && strings.Contains(fmt.Sprint(ev.Process.Argv), "hunter2") {
			t.Errorf("another uid's argv: %+v", ev.Process)
		}
	}
	if report.Verdict != "clean" || second.Verdict != "clean" {
		t.Error(report, second)
	}
}

// A history that cannot be used stops nothing: memory serves, and the status reports it.
func TestWithoutHistory(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"), daemontest.WithoutHistory)
	report := ended(w, 100, "job")
	st := daemontest.Get[api.Status](w, "root", "/v1/status")
	if !strings.Contains(strings.Join(st.Degraded, "\n"), "history is kept in memory only") {
		t.Errorf("%q", st.Degraded)
	}
	if _, ok := st.Counters["history.failed"]; !ok {
		t.Errorf("%v", st.Counters)
	}
	d := daemontest.Get[api.Sessions](w, "user", "/v1/history")
	if len(d.Items) != 1 || d.Items[0].ID != report.Session {
		t.Errorf("%+v", d)
	}
	w.Do("user", "GET", "/v1/sessions/nosuch", nil).Refused(api.CodeNotFound)
	if all, _ := stream(w, "user", "session=job&since=2026-01-02T04:00:00Z"); len(all) < 5 {
		t.Errorf("%+v", all)
	}
	w.Halt()
}

// TestHistoryInside: a member of another uid reads what was nested in its session, without command
// lines.
func TestHistoryInside(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	w.Session("user", 100, api.NewSession{Name: "mine"})
	w.Fork(100, 101, 1001, "lngtest-member")
	w.K.Edit(101, func(p *kerneltest.Proc) { p.UID = 1001 })
	w.Fork(100, 110, 1000, "lngtest-inner")
	inner := daemontest.Into[api.Session](w.Do("100", "POST", "/v1/sessions", api.NewSession{Name: "inner", Root: api.Ref{PID: 110}, GraceMS: daemontest.MS(0)}),
		http.StatusCreated)
	w.K.Exec(110, "/bin/lngtest", "lngtest\x00--shown\x00")
	w.K.Fork(110, 111, "lngtest-left")
	w.K.Exit(110, 0)
	w.Receipt(inner.ID)
	w.Restart()
	for who, want := range map[string]bool{"100": true, "101": false} {
		for _, path := range []string{"/v1/sessions/" + inner.ID, "/v1/sessions/" + inner.ID + "/report"} {
			a := w.Do(who, "GET", path, nil)
			if a.Status != http.StatusOK || strings.Contains(string(a.Body), "--shown") != want {
				t.Errorf("%s, %s: status %d, %s", who, path, a.Status, a.Body)
			}
		}
	}
}

// TestHistoryOfWhatLeft: a receipt names what was kept and which branch was ended before; a branch's tree begins with it.
func TestHistoryOfWhatLeft(t *testing.T) {
	w := daemontest.New(t, daemontest.WithBoot("b1"))
	s := w.Session("user", 100, api.NewSession{Name: "stack"})
	for _, f := range [][2]uint32{{100, 101}, {100, 102}, {102, 103}, {102, 104}} {
		w.Fork(f[0], f[1], 1000, "lngtest-member")
	}
	dead := w.Ref(102)
	w.K.Exit(102, 0)
	kept := daemontest.Into[api.Session](w.Keep("user", 101), http.StatusCreated)
	branch := daemontest.Into[api.Report](w.Do("root", "POST", "/v1/processes/"+dead+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
	w.Receipt(branch.Session)
	w.End("user", s.ID)
	w.Restart()
	r := daemontest.Get[api.Report](w, "user", "/v1/sessions/stack/report")
	was := fmt.Sprintf("session %s until %s by uid 1000 (lngtest-user): shared cache", kept.ID, kept.Until.Local().Format("2006-01-02 15:04"))
	by := fmt.Sprintf("session %s, ended by uid 0, pid %d lngtest-root", branch.Session, daemontest.Root)
	if o := r.Processes; fmt.Sprint(daemontest.Outcomes(r)) != "map[100:kill 101:kept 103:branch]" || o[0].Session != kept.ID || o[0].Why != was ||
		o[1].Session != branch.Session || o[1].Why != by || len(r.Contradictions()) > 0 {
		t.Errorf("%+v, %v", o, r.Contradictions())
	}
	tree := daemontest.Get[api.Tree](w, "user", "/v1/sessions/"+branch.Session+"/tree")
	if len(tree.Nodes) != 2 || tree.Nodes[0].PID != 103 || tree.Nodes[0].Comm != "lngtest-member" || tree.Nodes[1].PID != 104 {
		t.Errorf("%+v", tree.Nodes)
	}
}
