//go:build linux

package attribution_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Weak evidence gives way to strong: the work moves from the companion session to the
// session, with what it forked, and nothing shows where it was.
func TestBrokeredRaised(t *testing.T) {
	w := newWork(t, enforced)
	companion := w.panes(300, 310)
	w.K.Exit(101, 0)
	w.K.Fork(300, 301, "lngtest-child")
	w.Environ(300, w.token())
	w.K.Exec(300, "/bin/lngtest-pane", "lngtest-pane\x00") // under the same name: only its exec shows it
	w.members(300, 301)
	require.Equal(t, w.in(310), companion)
	w.Until(func() bool { return strings.Contains(w.Audit(), "adopted(env)") }) // it is noted after the move
	for _, b := range w.brokered(2) {
		want := map[int]string{300: "env strong " + w.s.ID, 310: "socket weak " + companion}[b.Process.PID]
		if got := b.Evidence.Source + " " + b.Evidence.Confidence + " " + b.Session; got != want || b.Broker != "tmux" || b.Ends != (b.Process.PID == 300) {
			t.Errorf("%s: %+v", got, b)
		}
	}
	w.become(310, "lngtest-pane", w.token())
	w.members(310)
	w.Until(func() bool { return w.Do("user", "GET", "/v1/sessions/"+companion, nil).Status == http.StatusNotFound })
	why := daemontest.Get[api.Why](w, "user", "/v1/why?ref=301")
	if why.Session.ID != w.s.ID || why.Delegated == nil || why.Delegated.Evidence.Source != "env" {
		t.Errorf("%+v", why)
	}
	w.K.Exit(100, 0)
	if r := w.Receipt(w.s.ID); r.Verdict != "clean" || len(r.Delegated) != 2 || !w.Dead(300) || !w.Dead(301) || !w.Dead(310) {
		t.Errorf("%+v", r)
	}
	if w.Dead(30) {
		t.Error("the server died")
	}
}

// Weak work stays in its companion session when other work of that session is raised,
// although the client that asked for both is a member.
func TestRaisedAlone(t *testing.T) {
	w := newWork(t, enforced)
	w.outsider(30, 1, "tmux")
	w.runs(101, "/usr/bin/tmux", "new-session", "-d", "sleep 9")
	w.outsider(300, 30, "lngtest-a")
	w.outsider(302, 300, "lngtest-d") // is entered by its parent
	w.outsider(310, 30, "lngtest-b")
	w.look()
	companion := w.beside(300, 302, 310)
	w.K.Fork(310, 311, "lngtest-c")
	w.become(300, "lngtest-pane", w.token())
	w.members(300)
	w.look()
	w.Until(func() bool { return strings.Contains(w.Audit(), "adopted(env)") })
	require.Equal(t, w.beside(310, 311, 302), companion)
	w.K.Exit(100, 0)
	if r := w.Receipt(w.s.ID); r.Verdict != "clean" || !w.Dead(300) || w.Dead(302) || w.Dead(310) || w.Dead(311) {
		t.Errorf("300, 310, 311 dead: %v %v %v; %+v", w.Dead(300), w.Dead(310), w.Dead(311), r)
	}
}

// With observe it stays where it is, with the better evidence.
func TestBrokeredRaisedObserved(t *testing.T) {
	w := newWork(t, "mode: observe\n")
	companion := w.panes(300)
	w.become(300, "lngtest-job", w.token())
	w.Until(func() bool { return w.brokered(1)[0].Evidence.Confidence == "strong" })
	if b := w.brokered(1)[0]; b.Session != companion || w.in(300) != companion || b.Ends || b.Evidence.Source != "env" {
		t.Errorf("%+v", b)
	}
	w.K.Exit(100, 0)
	w.Receipt(w.s.ID)
	w.look()
	w.Until(func() bool { // it would end with the session, as strong evidence does
		r := daemontest.Into[api.Report](w.Do("root", "GET", "/v1/sessions/"+companion+"/report", nil), http.StatusAccepted)
		return len(r.WouldEnd) == 1 && r.WouldEnd[0] == "ancestor"
	})
}
