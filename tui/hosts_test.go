package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// fleet is two hosts with a session each, and one that is down.
func fleet() *api.Frame {
	down := api.Session{ID: "db1.example.com", State: picture.Unreachable, EndReason: "ssh: connect to host db1.example.com port 22: No route to host"}
	f := &api.Frame{Head: api.Head{Kind: "snapshot"}, TimeNS: api.U64(noon.UnixNano()), Sessions: []api.Session{down},
		Status: &api.WatchStatus{Level: 4, Mode: "enforce", SelfCheck: &api.SelfCheck{OK: true, At: at(-30)}}}
	for i, host := range []string{"web1", "web2"} {
		p := live(4121+i, 4100, 4100, "npm", "run", "dev")
		p.Session, p.Orphan = host+"/k3x9q2", i == 0
		s := api.Session{ID: p.Session, Parent: host, Name: "shop", State: api.StateActive, Root: &p, Live: 1, Leftovers: 2, UID: 1000, Started: at(-79)}
		f.Upsert = append(f.Upsert, p)
		f.Sessions = append(f.Sessions, s, api.Session{ID: host, State: api.StateActive, Live: 1, Leftovers: 2, Forks: 9647, Level: 4, Mode: "enforce"})
	}
	return f
}

// on is a screen of the fleet with the row of a host selected.
func on(t *testing.T, o Options, width, height int, host string) *screen {
	o.Hosts = true
	s := newScreen(t, newFake(), o, width, height)
	s.frames(fleet())
	s.view.Select(s.view.Picture.Session(host))
	s.arrange()
	return s
}

func TestHostFrames(t *testing.T) {
	for _, size := range []struct{ width, height int }{{80, 24}, {120, 30}} {
		for _, tt := range []struct{ host, keys string }{{"web1", ""}, {"web1", "i"}, {"db1.example.com", ""}, {"db1.example.com", "i"}, {"web1", "z"}, {"web1", "o"}} {
			t.Run(fmt.Sprintf("%s_%s_%dx%d", tt.host, tt.keys, size.width, size.height), func(t *testing.T) {
				s := on(t, Options{}, size.width, size.height, tt.host)
				s.press(tt.keys)
				got := s.draw()
				fits(t, got, size.width, size.height)
				golden.RequireEqual(t, got+"\n")
			})
		}
	}
}

// A host is not a session: nothing about it reads as if it were one, and nothing ends it.
func TestHostIsNoSession(t *testing.T) {
	s := on(t, Options{}, 120, 30, "web1")
	s.says("3 hosts, 1 down", "2 sessions", "check ok on 2 of 3", "processes 1 live, 2 leftovers", "forks 9647",
		"!ends it and all", "!at once", "!peak", "!grace", "!user", "!started")
	for _, key := range []string{"x", "T", "space"} {
		s.view.Select(s.view.Picture.Session("web1"))
		s.press(key)
		s.says("web1 is a host: select one of its sessions")
		if s.dialog != nil || s.timeline != nil || s.view.Picture.Marks() > 0 {
			t.Errorf("%s works on a host", key)
		}
	}
	s.press("x")
	if s.dialog == nil {
		t.Error("x does nothing on a session of a host")
	}
}

// A host that cannot be reached has no figures, and says why in red, once.
func TestHostIsDown(t *testing.T) {
	s := on(t, Options{Theme: "dark"}, 200, 50, "web1")
	why := "unreachable: ssh: connect to host db1.example.com port 22: No route to host"
	for _, line := range strings.Split(s.draw(), "\n") {
		if text := ansi.Strip(line); strings.Contains(text, "db1.example.com") {
			require.Equal(t, strings.TrimSpace(strings.Split(text, "│")[1]), "db1.example.com  "+why)
			require.Contains(t, line, s.term.theme.Bad.Of("  "+why))
		}
	}
	s.press("x")
	s.view.Select(s.view.Picture.Session("db1.example.com"))
	s.press("esc esc x")
	s.says("db1.example.com is a host: select one of its sessions")
	none := fleet()
	none.Status = &api.WatchStatus{}
	s.frames(none)
	s.says("!level 0")
	s = on(t, Options{}, 80, 24, "db1.example.com")
	s.press("i")
	s.says("unreachable: ssh: connect to host db1.example.com port 22: No route to host", "!0s", "!policy")
}
