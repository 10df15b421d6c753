package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

// selectable is a daemon with sessions of each kind. Port 80 is of two, 82 of one; PID 7 is in web.
func selectable() *apitest.Client {
	f := &apitest.Client{Has: apitest.Has{Sessions: []api.Session{
		{ID: "aaa111", Name: "web", UID: 1, Container: &api.Container{ID: "0123456789abcdef", Name: "box"}},
		{ID: "aab222", Name: "nightly-1", UID: 2, Leftovers: 1, IdleSeconds: 7200, Container: &api.Container{ID: "aaaa",
			Name: "work", Pod: "pod-7f", Namespace: "build"}},
		{ID: "ccc333", Name: "nightly-2", UID: 1, Kept: true, IdleSeconds: 60},
		{ID: "ddd444", UID: 1, Paused: new(time.Now())},
		{ID: "12", Name: "9", UID: 3},
		{ID: "eee555", Name: "nightly-0", UID: 1},
	}}}
	for i := range f.Has.Sessions {
		f.Has.Sessions[i].State = api.StateActive
	}
	f.Has.Sessions[4].State, f.Has.Sessions[5].State = api.StateEnding, api.StateEnded
	f.On.Process = func(ref string) (*api.Process, error) {
		switch ref {
		case "7", "7@70":
			return &api.Process{Ref: api.Ref{PID: 7, StartNS: 70}, Session: "aaa111"}, nil
		case "8":
			return &api.Process{Ref: api.Ref{PID: 8}}, nil
		}
		return nil, api.NewError(api.CodeNotFound, "pid "+ref+": not found", "")
	}
	f.On.WhyPort = func(proto string, port int) (*api.Holders, error) {
		h := &api.Holders{Items: []api.Why{{}}} // one that is in no session
		for i := range map[int]int{80: 2, 82: 1}[port] {
			h.Items = append(h.Items, api.Why{Session: &f.Has.Sessions[i]})
		}
		return h, nil
	}
	return f
}

// selected are the ids that a selection finds, and its errors; ! marks those that a word alone names.
func selected(t *testing.T, s api.Selection) string {
	if err := s.Check(); err != nil {
		return err.Error()
	}
	found, err := s.Find(t.Context(), selectable())
	if err != nil {
		return err.Error()
	}
	var got []string
	for _, c := range found.Choices {
		switch {
		case c.Err != nil:
			got = append(got, c.Err.Error())
		case c.Named:
			got = append(got, c.Session.ID+"!")
		default:
			got = append(got, c.Session.ID)
		}
	}
	return strings.Join(got, " ")
}

// TestSelectsNothing: what is empty, wrong or of nobody selects no session.
func TestSelectsNothing(t *testing.T) {
	for want, all := range map[string][]api.Selection{
		"no session is selected": {{}, {Ended: true}, {Whole: true}},
		"--all selects every session; name none, and select by nothing else": {{All: true, Words: []string{"web"}},
			{All: true, State: "kept"}, {All: true, UID: new(1)}},
		"": {{State: "ended", UID: new(9)}, {Container: "bo"}, {Container: "0123456789a"}, {Container: "0123456789ac"},
			{Container: "aaaa"}, {Pod: "pod"}, {Pod: "/pod-7f"},
			{Container: "box", Pod: "pod-7f"}, {Pod: "/"}, {Idle: 3 * time.Hour}, {Words: []string{"web"}, State: "kept"}, {State: "leftover", UID: new(1)}},
		`invalid pattern "a[": must be a name with *, ? and [a-z]`:                                {{Words: []string{"a["}}},
		`invalid :PORT ":0": must be :PORT, :PORT/tcp or :PORT/udp, PORT 1 to 65535 or a service`: {{Words: []string{"web", ":0"}}},
		"no session has a name like x*; names are web nightly-1 nightly-2 9": {{Words: []string{"x*"}},
			{Words: []string{"web", "x*"}, State: "active"}},
		"no session has a name like ddd*; names are web nightly-1 nightly-2 9": {{Words: []string{"ddd*"}}}, // an id
		"session wbe: not found":                                {{Words: []string{"wbe"}}, {Words: []string{"wbe"}, UID: new(1)}},
		"session aa: not found":                                 {{Words: []string{"aa"}}},
		"session aaa: not found; to end aaa111 name it in full": {{Words: []string{"aaa"}, Whole: true}},
		"no session has :81; see \"lineage why :81\"":           {{Words: []string{":81"}}},
		"pid 8 belongs to no session":                           {{Words: []string{"8"}}},
		"pid 7@71: not found":                                   {{Words: []string{"7@71"}}},
	} {
		for _, s := range all {
			require.Equal(t, selected(t, s), want)
		}
	}
	many := selectable()
	for range api.MaxMatched {
		many.Has.Sessions = append(many.Has.Sessions, api.Session{Name: "nightly-x", State: api.StateActive})
	}
	found, err := (&api.Selection{Words: []string{"nightly-*"}}).Find(t.Context(), many)
	require.NoError(t, err)
	require.Equal(t, found.Choices[0].Err.Error(), "1026 sessions have a name like nightly-*, at most 1024 are taken")
}

// TestSelects: what each selection finds.
func TestSelects(t *testing.T) {
	for _, x := range []struct {
		s    api.Selection
		want string
	}{
		{api.Selection{All: true}, "aaa111 aab222 ccc333 ddd444 12"},
		{api.Selection{All: true, Ended: true}, "aaa111 aab222 ccc333 ddd444 12 eee555"},
		{api.Selection{Words: []string{"web", "nosuch", "aaa111", "eee555"}}, "aaa111! session nosuch: not found eee555!"},
		{api.Selection{Words: []string{"ddd", "aab"}}, "ddd444! aab222!"},
		{api.Selection{Words: []string{"9", "7@70"}}, "12! aaa111!"}, // the name of a session, then a process
		{api.Selection{Words: []string{"7", "w*"}}, "aaa111"},        // a process is less than its session
		{api.Selection{Words: []string{"nightly-*"}}, "aab222 ccc333"},
		{api.Selection{Words: []string{"nightly-?", "web"}, Ended: true}, "aab222 ccc333 eee555 aaa111!"},
		{api.Selection{Words: []string{":http"}}, "aaa111 aab222"},
		{api.Selection{Words: []string{":82/tcp"}}, "aaa111!"},
		{api.Selection{State: "ended"}, "eee555"},
		{api.Selection{Idle: time.Hour, Words: []string{"nightly-2", "nightly-1"}}, "aab222"},
		{api.Selection{Container: "0123456789ab"}, "aaa111"},
		{api.Selection{Pod: "pod-7f", UID: new(2)}, "aab222"},
		{api.Selection{Pod: "build/pod-7f", Container: "work"}, "aab222"},
	} {
		require.Equal(t, selected(t, x.s), x.want)
	}
}
