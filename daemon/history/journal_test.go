//go:build linux

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// journalAt opens a journal for boot b1 whose clock is now.
func journalAt(t testing.TB, path string, now *time.Time) *Journal {
	t.Helper()
	j := OpenJournal(path, JournalOptions{Boot: "b1", Now: func() time.Time { return *now }})
	t.Cleanup(j.Close)
	return j
}

// Err is why nothing is kept now; nil: the journal works.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func open(t testing.TB, path string) *Journal {
	t.Helper()
	now := noon
	return journalAt(t, path, &now)
}

// alter changes a file behind the journal's back.
func alter(t testing.TB, path, q string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(q, args...)
	require.NoError(t, errors.Join(err, db.Close()))
}

func journalHistory(t testing.TB) string { return filepath.Join(t.TempDir(), "state", "history.db") }

func write(t testing.TB, j *Journal, b Batch) {
	t.Helper()
	require.NoError(t, j.Write(context.Background(), &b))
}

func session(n uint64, ended time.Time) Session {
	return Session{Boot: "b1", ID: tracer.SessionID(n), Word: fmt.Sprintf("w%05d", n), Name: fmt.Sprint("name", n%3), UID: uint32(n % 2),
		Zero: noon, Started: noon, Ended: ended, Doc: []byte(`{"a":1}`), Report: []byte(`{}`), State: []byte(`null`)}
}

// listed are the sessions or the PIDs that a query gave.
func listed[T any](all []T, err error) string {
	var keys []any
	for _, x := range all {
		switch x := any(x).(type) {
		case Session:
			keys = append(keys, uint64(x.ID))
		case Process:
			keys = append(keys, x.PID)
		}
	}
	return fmt.Sprint(append(keys, err)...)
}

// seq is the number of a block's first event.
func seq(b *Block, err error) string {
	if b == nil || err != nil {
		return fmt.Sprint(err)
	}
	return fmt.Sprint(b.Records[0].Seq)
}

func records(first uint64, n int, at time.Duration) (all []Record) {
	for i := range n {
		all = append(all, Record{Seq: first + uint64(i), Event: tracer.Event{
			Type: tracer.EventExec, Time: uint64(at) + uint64(i), Session: 7, Process: tracer.Identity{PID: 9, Start: 8},
			Looks: lineage.Looks{Comm: tracer.Comm{'a'}}, After: lineage.After{Image: &lineage.Image{Comm: "a", Exe: "/bin/a", Argv: []string{"a", "-b"}}},
		}})
	}
	return all
}

func TestCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if len(b) == 0 {
			return nil
		}
		return b
	}
	calls := []*lineage.Call{{ID: "toolu_1", Tool: "Bash", Agent: tracer.Identity{PID: 1, Start: 2}, Began: 3}, {ID: "2"}}
	calls[1].End(1 << 63)
	traces := []lineage.Trace{{ID: [16]byte{1}, Span: [8]byte{7: 2}, Sampled: true, From: tracer.Identity{PID: 3, Start: 4}}, {Span: [8]byte{1}}}
	images := []*lineage.Image{{Comm: "a", Exe: "/bin/a", Argv: []string{"a", "", "c"}, Truncated: true}, {Comm: "b"}, nil}
	for range 10 {
		var all []Record
		seq := r.Uint64() >> 1
		for range r.IntN(60) {
			seq += uint64(r.IntN(3))
			x := Record{Seq: seq}
			x.Type, x.Time, x.Session = tracer.EventType(r.Uint32()), r.Uint64(), tracer.SessionID(r.Uint64())
			x.Process, x.Creator = tracer.Identity{PID: r.Uint32(), Start: r.Uint64()}, tracer.Identity{PID: r.Uint32(), Start: r.Uint64()}
			x.Parent, x.From = tracer.Identity{PID: r.Uint32()}, tracer.Identity{Start: r.Uint64()}
			x.Flags, x.Evidence, x.UID, x.Cgroup = tracer.EntryFlags(r.Uint32()), tracer.Evidence(r.Uint32()&0xff), r.Uint32(), r.Uint64()
			x.Source = tracer.Source(r.Uint32() & 0xff)
			x.ExitStatus, x.CPUTime, x.MaxRSS, x.Count, x.Since = r.Uint32(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
			x.State, x.Cause, x.Met, x.StatusKnown = tracer.State(r.Uint32()), tracer.Cause(r.Uint32()), r.Uint32()&1 == 0, r.Uint32()&1 == 0
			copy(x.Comm[:15], "comm"[:r.IntN(5)])
			x.Subject, x.Image = text(), images[r.IntN(3)]
			if r.IntN(2) == 0 {
				x.Exited = x.Time - uint64(r.IntN(2))
			}
			if r.IntN(3) == 0 {
				x.Was, x.WasUID, x.Before, x.Call = images[r.IntN(2)], r.Uint32(), r.Uint64(), calls[r.IntN(2)]
			}
			switch r.IntN(3) {
			case 0:
				x.Address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(r.Uint32())}), uint16(r.Uint32()))
			case 1:
				x.Address = netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(r.Uint32()))
			}
			switch r.IntN(4) {
			case 0:
				x.Claim = &lineage.Claim{Trace: traces[r.IntN(2)]}
			case 1:
				x.Claim = &lineage.Claim{Calls: calls[:1+r.IntN(2)]}
			case 2:
				x.Claim = &lineage.Claim{Trace: traces[r.IntN(2)], Calls: calls[r.IntN(2):]}
			}
			if r.IntN(2) == 0 {
				x.Signal = &lineage.Signal{
					Number: uint8(r.Uint32()), Sender: lineage.Sender(r.IntN(7)), Time: r.Uint64(), By: tracer.Identity{PID: r.Uint32(), Start: r.Uint64()},
					Session: tracer.SessionID(r.Uint64()), UID: r.Uint32(), Comm: string(text()), Handled: r.IntN(2) == 0, Raised: r.IntN(2) == 0, Passed: r.IntN(2) == 0,
				}
			}
			if x.Signal != nil && r.IntN(2) == 0 {
				x.Signal.OOM = &lineage.OOM{Of: "session", Session: tracer.SessionID(r.Uint32()), Name: "w\x1b", Limit: r.Uint64(), Peak: r.Uint64(), Had: r.Uint64()}
			}
			if r.IntN(2) == 0 {
				x.Moved = &tracer.Moved{
					Cgroup: r.Uint64(), Path: "/a\x1b", Outside: r.IntN(2) == 0, By: tracer.Identity{PID: r.Uint32(), Start: r.Uint64()},
					Session: tracer.SessionID(r.Uint32()), UID: r.Uint32(), Comm: "x",
				}
			}
			if r.IntN(2) == 0 {
				x.Crossing = &tracer.Crossing{
					Signal: uint8(r.Uint32()), Refused: r.IntN(2) == 0, To: tracer.Identity{PID: r.Uint32(), Start: r.Uint64()},
					Session: tracer.SessionID(r.Uint64()), UID: r.Uint32(), Comm: string(text()),
				}
			}
			all = append(all, x)
		}
		b, err := encode(all)
		require.NoError(t, err)
		got, err := decode(b)
		if err != nil || len(got) != len(all) || len(all) > 0 && !reflect.DeepEqual(got, all) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, all)
		}
		for i := range b {
			if _, err := decode(b[:i]); err == nil && len(all) > 0 {
				t.Fatalf("half a block is taken: %d of %d bytes", i, len(b))
			}
		}
	}
}

// What was written can be read after a reopen: live and ended sessions, their
// processes, events, in private files.
func TestRoundTrip(t *testing.T) {
	path := journalHistory(t)
	j := open(t, path)
	live := session(1, time.Time{})
	live.Report = nil
	write(t, j, Batch{Sessions: []Session{live, session(2, noon), session(3, noon.Add(time.Hour))},
		Processes: []Process{{PID: 5, Start: 1 << 62, Session: 2, Doc: []byte(`{}`)}},
		Events:    records(100, 10, 0), Zero: noon})
	write(t, j, Batch{Events: records(200, 10, time.Hour), Zero: noon})
	for name, mode := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, filepath.Dir(path): 0o700} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, st.Mode(), err)
		}
	}
	j.Close()
	ctx := t.Context()
	j = open(t, path)
	if j.Err() != nil || j.Degraded() != nil {
		t.Fatal(j.Err(), j.Degraded())
	}
	if got, err := j.Live(ctx); err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], live) {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := j.Processes(ctx, "b1", 2); err != nil || len(got) != 1 || got[0].Start != 1<<62 || string(got[0].Doc) != `{}` {
		t.Errorf("%v %+v", err, got)
	}
	require.Equal(t, listed(j.Ended(ctx, Query{Limit: 10})), "3 2 <nil>")
	// An ended session replaces the live one.
	live.Ended = noon
	write(t, j, Batch{Sessions: []Session{live}})
	require.Equal(t, listed(j.Live(ctx)), "<nil>")
	b, err := j.Next(ctx, 0, time.Time{}, "b1", 150)
	if seq(b, err) != "200" || b.Zero != noon {
		t.Fatalf("%+v %v", b, err)
	}
	require.Equal(t, seq(j.Next(ctx, 0, noon, "", 0)), "100")
	require.Equal(t, seq(j.Next(ctx, 0, noon.Add(time.Minute), "", 0)), "200")
	require.Equal(t, seq(j.Next(ctx, b.ID, time.Time{}, "", 0)), "<nil>")
	require.Equal(t, seq(j.Next(ctx, 0, time.Time{}, "b2", 0)), "<nil>")
}

// The pages of the ended sessions contain each once, even if many ended in the same
// instant.
func TestEndedPages(t *testing.T) {
	j := open(t, journalHistory(t))
	var b Batch
	for n := range uint64(50) {
		b.Sessions = append(b.Sessions, session(n+1, noon.Add(time.Duration(n/20)*time.Second)))
	}
	write(t, j, b)
	uid := uint32(1)
	for name, tt := range map[string]struct {
		q    Query
		want int
	}{
		"all":   {Query{}, 50},
		"uid":   {Query{UID: &uid}, 25},
		"since": {Query{Since: noon.Add(time.Second)}, 30},
		"until": {Query{Until: noon}, 20},
		"name":  {Query{Name: "name0"}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[tracer.SessionID]bool{}
			var last Place
			for tt.q.Limit = 7; ; {
				page, err := j.Ended(t.Context(), tt.q)
				require.NoError(t, err)
				for i := range page {
					if p := page[i].Place(); seen[page[i].ID] || !p.Behind(last) {
						t.Fatalf("%d again, or out of order", page[i].ID)
					}
					seen[page[i].ID], last = true, page[i].Place()
				}
				if tt.q.Before = last; len(page) < 7 {
					break
				}
			}
			require.Equal(t, len(seen), tt.want)
		})
	}
}

// TestNumbers: the ends of sessions are read in the order in which they were written first, whenever they were; each once, also if
// it is written again, if another one is damaged, and in a file that replaces this one.
func TestNumbers(t *testing.T) {
	path, now, last := journalHistory(t), noon, int64(0)
	j := journalAt(t, path, &now)
	read := func(after int64, want ...tracer.SessionID) {
		t.Helper()
		for _, id := range want {
			s, number, err := j.After(t.Context(), after)
			if err != nil || s == nil || s.ID != id {
				t.Fatalf("%+v, %v, want %d", s, err, id)
			}
			after = number
		}
		if s, number, err := j.After(t.Context(), after); s != nil || number != after || err != nil {
			t.Errorf("%+v, %d, %v", s, number, err)
		}
		newest, err := j.Newest(t.Context())
		require.NoError(t, err)
		require.Equal(t, newest, after)
		last = after
	}
	early := session(9, noon)
	early.Report = nil
	write(t, j, Batch{Sessions: []Session{session(1, time.Time{}), session(2, noon), session(3, noon), early}})
	read(0, 2, 3)
	write(t, j, Batch{Sessions: []Session{session(3, noon), session(1, noon.Add(-time.Hour)), session(2, noon.Add(time.Hour))}})
	read(last, 1)
	now = now.Add(-time.Hour)
	write(t, j, Batch{Sessions: []Session{session(9, noon)}})
	read(last, 9)
	read(0, 2, 3, 1, 9)
	alter(t, path, "UPDATE sessions SET word = 'x' WHERE id IN (2, 3)")
	read(0, 1, 9)
	j.Close()
	now = noon.Add(time.Second)
	j = journalAt(t, journalHistory(t), &now)
	write(t, j, Batch{Sessions: []Session{session(4, noon)}})
	read(last, 4)
}

func TestFind(t *testing.T) {
	j := open(t, journalHistory(t))
	other := session(4, noon.Add(-time.Second))
	other.Boot = "b0"
	write(t, j, Batch{Sessions: []Session{session(1, noon), other, session(7, noon.Add(time.Second))}})
	for word, want := range map[string]string{"w00001": "1 <nil>", "w00004": "4 <nil>", "name1": "7 1 4 <nil>", "none": "<nil>", "": "<nil>"} {
		require.Equal(t, listed(j.Find(t.Context(), word)), want)
	}
	for boot, want := range map[string]bool{"b0": true, "b1": false} {
		if s, err := j.Session(t.Context(), boot, 4); err != nil || (s != nil) != want || want && s.Boot != boot {
			t.Errorf("%+v %v", s, err)
		}
	}
}
