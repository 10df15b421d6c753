//go:build linux

package stream

import (
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

const thisBoot, lastBoot = "lngtest-now", "lngtest-last"

// Sessions of the last boot, and one of which no row is left.
const (
	mine, theirs, nested, pruned tracer.SessionID = 1 << 32, 2 << 32, 3 << 32, 9 << 32
)

// stage is a daemon's streams over a history of the last boot, and a registry with a live session
// of uid 1000 and one of uid 1001.
type stage struct {
	e    *Events
	live map[uint32]tracer.SessionID // by uid
}

func newStage(t *testing.T) *stage {
	t.Helper()
	file := filepath.Join(t.TempDir(), "h", "history.db")
	j := history.OpenJournal(file, history.JournalOptions{Boot: lastBoot, Now: time.Now})
	b := history.Batch{Zero: time.Unix(0, 0)}
	for _, s := range []history.Session{{ID: mine, Word: "mine", UID: 1000}, {ID: theirs, Word: "theirs", UID: 1001}, {ID: nested, Word: "nested", UID: 1000, Parent: mine}} {
		s.Boot, s.Zero, s.Started, s.Ended, s.Doc = lastBoot, b.Zero, time.Unix(1, 0), time.Unix(2, 0), []byte("{}")
		b.Sessions = append(b.Sessions, s)
	}
	require.NoError(t, j.Write(t.Context(), &b))
	j.Close()
	j = history.OpenJournal(file, history.JournalOptions{Boot: thisBoot, Now: time.Now})
	t.Cleanup(j.Close)
	f := registrytest.New(t)
	f.Run()
	s := &stage{live: map[uint32]tracer.SessionID{1000: f.Session(100, 1000).ID(), 1001: f.Session(200, 1001).ID()}}
	if _, err := f.R.Resync(registry.CauseMember); err != nil { // the roots' births
		t.Fatal(err)
	}
	ring := history.NewRing(1, history.RingSize)
	recorder := history.NewRecorder(history.Options{Ground: f.Ground(), Ring: ring, Journal: j, Boot: thisBoot})
	s.e = NewEvents(EventsOptions{
		Lines: Lines{Ground: f.Ground(), Tally: &Tally{}}, Ring: ring, BootID: thisBoot,
		Archive: history.NewArchive(recorder, nil),
	})
	return s
}

// reader is one that asked for a session, 0: for all.
func (s *stage) reader(c access.Caller, session tracer.SessionID, boot string) (*reader, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	return &reader{
		e: s.e, out: s.e.o.To(w, c), caller: c, session: session, visible: make(map[tracer.SessionID]bool),
		span: span{boot: boot, readable: make(map[bootSession]bool)},
	}, w
}

// TestPast: which events of the history a reader gets, by the session that they are of.
func TestPast(t *testing.T) {
	s := newStage(t)
	user, root := access.Caller{UID: 1000}, access.Caller{}
	all := []tracer.SessionID{0, mine, theirs, nested, pruned}
	for name, x := range map[string]struct {
		caller  access.Caller
		session tracer.SessionID // that was asked for
		gets    []tracer.SessionID
	}{
		"a user":                         {user, 0, []tracer.SessionID{mine, nested}},
		"a user, of a session":           {user, nested, []tracer.SessionID{nested}},
		"a user, of another's":           {user, theirs, nil},
		"root":                           {root, 0, []tracer.SessionID{mine, theirs, nested, pruned}},
		"root, of a session":             {root, mine, []tracer.SessionID{mine, nested}},
		"root, of a session of no row":   {root, pruned, nil},
		"the highest uid":                {access.Caller{UID: ^uint32(0)}, 0, nil},
		"a member of a session that was": {access.Caller{UID: 1000, Member: mine}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := s.reader(x.caller, x.session, "")
			if x.session != 0 {
				r.boot = lastBoot
			}
			block := &history.Block{Boot: lastBoot}
			want := ""
			for i, id := range all {
				ev := tracer.Event{Type: tracer.EventBirth, Process: tracer.Identity{PID: uint32(1000 + i), Start: 1}, Session: id}
				r.sendPast(t.Context(), block, document.Fixed(time.Unix(0, 0)), &history.Record{Seq: uint64(1 + i), Event: ev})
				for _, in := range x.gets {
					if in == id {
						want += id.String() + " "
					}
				}
			}
			r.out.Flush()
			got := ""
			for _, id := range all[1:] {
				if strings.Contains(w.Body.String(), `"session":"`+id.String()+`"`) {
					got += id.String() + " "
				}
			}
			if got != want || strings.Count(w.Body.String(), `"boot_id":"`+lastBoot+`"`) != len(x.gets) {
				t.Errorf("got %s, want %s: %s", got, want, w.Body)
			}
		})
	}
}

// TestPresent: the snapshot has the sessions and processes that the caller may read, and asked for.
func TestPresent(t *testing.T) {
	s := newStage(t)
	for name, x := range map[string]struct {
		caller  access.Caller
		session tracer.SessionID
		uids    []int // of the processes
	}{
		"a user":               {access.Caller{UID: 1000}, 0, []int{1000}},
		"another user":         {access.Caller{UID: 1001}, 0, []int{1001}},
		"a third user":         {access.Caller{UID: 1002}, 0, nil},
		"a user, of another's": {access.Caller{UID: 1000}, s.live[1001], nil},
		"root":                 {access.Caller{}, 0, []int{1000, 1001}},
		"root, of a session":   {access.Caller{}, s.live[1001], []int{1001}},
	} {
		r, _ := s.reader(x.caller, x.session, "")
		var got []any
		require.NoError(t, s.e.o.Registry.Read(func(v registry.View) { got = r.present(v) }))
		var sessions []string
		var uids []int
		for _, doc := range got {
			switch d := doc.(type) {
			case *api.Event:
				sessions = append(sessions, d.Session)
			case *api.Process:
				uids = append(uids, *d.UID)
			}
		}
		slices.Sort(uids)
		if len(sessions) != len(x.uids) || slices.Contains(sessions, "") || !slices.Equal(uids, x.uids) {
			t.Errorf("%s: sessions %q, processes of %v, want %v", name, sessions, uids, x.uids)
		}
	}
}

// TestLive: which events of the ring a reader gets.
func TestLive(t *testing.T) {
	s := newStage(t)
	about := func(uid uint32, chain ...tracer.SessionID) *history.About {
		return &history.About{Scope: access.Scope{UID: uid, Chain: chain}}
	}
	for name, x := range map[string]struct {
		caller  access.Caller
		session tracer.SessionID
		about   *history.About
		may     bool
	}{
		"a user's own":             {access.Caller{UID: 1000}, 0, about(1000, mine), true},
		"another user's":           {access.Caller{UID: 1000}, 0, about(1001, theirs), false},
		"of no session":            {access.Caller{}, 0, nil, false},
		"root":                     {access.Caller{}, 0, about(1001, theirs), true},
		"the session asked for":    {access.Caller{}, mine, about(1000, mine), true},
		"nested in it":             {access.Caller{}, mine, about(1000, nested, mine), true},
		"another session":          {access.Caller{}, mine, about(1001, theirs), false},
		"the session around it":    {access.Caller{}, nested, about(1000, mine), false},
		"a member, around its own": {access.Caller{UID: 1000, Member: nested}, 0, about(1000, mine), false},
	} {
		r, w := s.reader(x.caller, x.session, "")
		ev := &history.RecentEvent{Seq: 1, About: x.about}
		ev.Type, ev.Process = tracer.EventBirth, tracer.Identity{PID: 1000, Start: 1}
		if r.send(ev); r.out.Flush() && (w.Body.Len() > 0) != x.may {
			t.Errorf("%s: got %q", name, w.Body)
		}
	}
}
