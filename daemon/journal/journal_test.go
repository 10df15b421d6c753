//go:build linux

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// journalAt opens a journal for boot b1 that tells the time of now.
func journalAt(t testing.TB, path string, now *time.Time) *Journal {
	t.Helper()
	j := Open(path, Options{Boot: "b1", Now: func() time.Time { return *now }})
	t.Cleanup(func() { j.Close() })
	return j
}

func open(t testing.TB, path string) *Journal {
	t.Helper()
	now := noon
	return journalAt(t, path, &now)
}

func write(t testing.TB, j *Journal, b Batch) {
	t.Helper()
	if err := j.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
}

func session(n uint64, ended time.Time) Session {
	return Session{Boot: "b1", ID: n, Word: fmt.Sprintf("w%05d", n), Name: fmt.Sprint("name", n%3), UID: uint32(n % 2),
		Zero: noon, Started: noon, Ended: ended, Doc: []byte(`{"a":1}`), Report: []byte(`{}`), State: []byte(`null`)}
}

func records(first uint64, n int, at time.Duration) (all []Record) {
	for i := range n {
		all = append(all, Record{Seq: first + uint64(i), Event: tracer.Event{
			Type: tracer.EventExec, Time: uint64(at) + uint64(i), Session: 7, Process: tracer.Identity{PID: 9, Start: 8},
			Comm: tracer.Comm{'a'}, Filename: []byte("/bin/a"), Argv: []byte("a\x00-b\x00"),
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
	for range 50 {
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
			x.State, x.Cause, x.ArgvTruncated = tracer.State(r.Uint32()), tracer.Cause(r.Uint32()), r.Uint32()&1 == 0
			copy(x.Comm[:15], "comm"[:r.IntN(5)])
			x.Filename, x.Argv = text(), text()
			all = append(all, x)
		}
		b, err := encode(all)
		if err != nil {
			t.Fatal(err)
		}
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

// What is written is there after a reopen: live and ended sessions, their
// processes, events, in private files.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "history.db")
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
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	j = open(t, path)
	if j.Err() != nil || j.Degraded() != nil {
		t.Fatal(j.Err(), j.Degraded())
	}
	if got, err := j.Live(ctx); err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], live) {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := j.Ended(ctx, Query{Limit: 10}); err != nil || len(got) != 2 || got[0].ID != 3 || got[1].ID != 2 {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := j.Processes(ctx, "b1", 2); err != nil || len(got) != 1 || got[0].Start != 1<<62 {
		t.Errorf("%v %+v", err, got)
	}
	// An ended session replaces the live one.
	live.Ended = noon
	write(t, j, Batch{Sessions: []Session{live}})
	if got, err := j.Live(ctx); err != nil || len(got) != 0 {
		t.Errorf("%v %+v", err, got)
	}
	b, err := j.Next(ctx, 0, time.Time{}, "b1", 150)
	if err != nil || b == nil || b.Records[0].Seq != 200 || b.Zero != noon {
		t.Fatalf("%+v %v", b, err)
	}
	if b, err = j.Next(ctx, 0, noon, "", 0); err != nil || b == nil || b.Records[0].Seq != 100 {
		t.Fatalf("%+v %v", b, err)
	}
	if b, err = j.Next(ctx, 0, noon.Add(time.Minute), "", 0); err != nil || b == nil || b.Records[0].Seq != 200 {
		t.Fatalf("%+v %v", b, err)
	}
	if b, err = j.Next(ctx, b.ID, time.Time{}, "", 0); err != nil || b != nil {
		t.Fatalf("%+v %v", b, err)
	}
	if b, err = j.Next(ctx, 0, time.Time{}, "b2", 0); err != nil || b != nil {
		t.Fatalf("%+v %v", b, err)
	}
}

// Pages of the ended sessions together give each once, also where many ended
// in the same instant.
func TestEndedPages(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "state", "history.db"))
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
			seen := map[uint64]bool{}
			var last Place
			for tt.q.Limit = 7; ; {
				page, err := j.Ended(t.Context(), tt.q)
				if err != nil {
					t.Fatal(err)
				}
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
			if len(seen) != tt.want {
				t.Errorf("%d sessions, want %d", len(seen), tt.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "state", "history.db"))
	other := session(4, noon)
	other.Boot = "b0"
	write(t, j, Batch{Sessions: []Session{session(1, noon), other, session(7, noon.Add(time.Second))}})
	for word, want := range map[string][]uint64{"w00001": {1}, "w00004": {4}, "name1": {7, 1, 4}, "none": nil, "": nil} {
		got, err := j.Find(t.Context(), word)
		if err != nil || len(got) != len(want) || len(got) > 0 && got[0].ID != want[0] {
			t.Errorf("%q: %+v %v", word, got, err)
		}
	}
	if s, err := j.Session(t.Context(), "b0", 4); err != nil || s == nil || s.Boot != "b0" {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := j.Session(t.Context(), "b1", 4); err != nil || s != nil {
		t.Errorf("%+v %v", s, err)
	}
}

func TestMaxAge(t *testing.T) {
	now := noon
	path := filepath.Join(t.TempDir(), "state", "history.db")
	j := Open(path, Options{Boot: "b1", MaxAge: time.Hour, Now: func() time.Time { return now }})
	defer j.Close()
	write(t, j, Batch{Sessions: []Session{session(1, noon), session(2, time.Time{}), session(3, noon.Add(2*time.Hour))},
		Processes: []Process{{PID: 5, Start: 1, Session: 1, Doc: []byte(`{}`)}, {PID: 5, Start: 2, Session: 2, Doc: []byte(`{}`)}},
		Events:    records(1, 5, 0), Zero: noon})
	now = noon.Add(2 * time.Hour)
	write(t, j, Batch{Events: records(10, 5, 2*time.Hour), Zero: noon})
	ended, err := j.Ended(t.Context(), Query{Limit: 10})
	live, err2 := j.Live(t.Context())
	if err != nil || err2 != nil || len(ended) != 1 || ended[0].ID != 3 || len(live) != 1 {
		t.Errorf("%+v %+v %v %v", ended, live, err, err2)
	}
	if p, err := j.Processes(t.Context(), "b1", 1); err != nil || len(p) != 0 {
		t.Errorf("%+v %v", p, err)
	}
	if p, err := j.Processes(t.Context(), "b1", 2); err != nil || len(p) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	if b, err := j.Next(t.Context(), 0, time.Time{}, "", 0); err != nil || b == nil || b.Records[0].Seq != 10 {
		t.Errorf("%+v %v", b, err)
	}
	if j.Stats().Pruned == 0 {
		t.Error("nothing was counted")
	}
}

// The file does not grow beyond its limit, and what stays is the newest.
func TestMaxSize(t *testing.T) {
	for name, pause := range map[string]time.Duration{"usual": time.Minute, "storm": time.Millisecond} {
		t.Run(name, func(t *testing.T) { testMaxSize(t, pause) })
	}
}

func testMaxSize(t *testing.T, pause time.Duration) {
	now := noon
	path := filepath.Join(t.TempDir(), "state", "history.db")
	const limit = 4 << 20
	j := Open(path, Options{Boot: "b1", MaxBytes: limit, Now: func() time.Time { return now }})
	defer j.Close()
	var last uint64
	for i := range 60 {
		rs := bulky(last+1, time.Duration(i)*pause)
		last = rs[99].Seq
		write(t, j, Batch{Events: rs, Zero: noon, Sessions: []Session{session(uint64(i)+1, noon.Add(time.Duration(i)*pause))}})
		now = now.Add(pause)
		if st, err := os.Stat(path); err != nil || st.Size() > limit {
			t.Fatalf("%d bytes %v", st.Size(), err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	if b, err := j.Next(t.Context(), 0, time.Time{}, "b1", last); err != nil || b == nil {
		t.Errorf("the newest is gone: %v", err)
	}
	if b, err := j.Next(t.Context(), 0, time.Time{}, "", 0); err != nil || b == nil || b.Records[0].Seq == 1 {
		t.Errorf("the oldest is there: %v", err)
	}
}

// bulky are 100 events that take 200 KB however they are encoded.
func bulky(first uint64, at time.Duration) []Record {
	r := rand.New(rand.NewPCG(first, 2))
	rs := records(first, 100, at)
	for i := range rs {
		rs[i].Argv = make([]byte, 2000)
		for k := range rs[i].Argv {
			rs[i].Argv[k] = byte(r.Uint32())
		}
	}
	return rs
}

// A session whose end is more than is free in the file gets its room.
func TestLargeBatch(t *testing.T) {
	const limit = 4 << 20
	j := Open(filepath.Join(t.TempDir(), "state", "history.db"), Options{Boot: "b1", MaxBytes: limit, Now: func() time.Time { return noon }})
	defer j.Close()
	for first := uint64(1); j.Stats().Bytes < limit*3/4; first += 100 {
		write(t, j, Batch{Events: bulky(first, 0), Zero: noon})
	}
	large := Batch{Sessions: []Session{session(1, noon)}, Zero: noon}
	for pid := range uint32(1500) {
		large.Processes = append(large.Processes, Process{PID: pid + 1, Start: 1, Session: 1, Doc: make([]byte, 500)})
	}
	write(t, j, large)
}

// A file that is not to be used is set aside, whole, and another one begun.
func TestSetAside(t *testing.T) {
	good := filepath.Join(t.TempDir(), "state", "history.db")
	j := open(t, good)
	for i := range uint64(50) {
		write(t, j, Batch{Sessions: []Session{session(i+1, noon)}, Events: records(i*10+1, 10, 0), Zero: noon})
	}
	j.Close()
	bytes, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	alter := func(q string) func(string) {
		return func(path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		spoil func(path string)
		kind  string
	}{
		"newer":    {alter("PRAGMA user_version = 99"), "newer"},
		"foreign":  {alter("PRAGMA application_id = 5"), "foreign"},
		"trigger":  {alter("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM sessions; END"), "damaged"},
		"no table": {alter("DROP TABLE processes"), "damaged"},
		"column":   {alter("ALTER TABLE events ADD COLUMN x"), "damaged"},
		"text":     {func(path string) { os.WriteFile(path, []byte(strings.Repeat("no database\n", 1000)), 0o600) }, "foreign"},
		"page": {func(path string) {
			b := append([]byte{}, bytes...)
			for i := 4096*4 + 1; i < len(b); i += 4096 {
				copy(b[i:i+100], make([]byte, 100))
			}
			os.WriteFile(path, b, 0o600)
		}, "damaged"},
		"cut": {func(path string) { os.WriteFile(path, bytes[:len(bytes)/2+100], 0o600) }, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			path := filepath.Join(dir, "history.db")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, bytes, 0o600)); err != nil {
				t.Fatal(err)
			}
			tt.spoil(path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			j := Open(path, Options{Boot: "b1", Now: func() time.Time { return noon }, Told: func(_ error, aside string) {
				if aside != "" {
					told = append(told, aside)
				}
			}})
			defer j.Close()
			write(t, j, Batch{Sessions: []Session{session(77, noon)}})
			if got, err := j.Ended(t.Context(), Query{Limit: 10}); err != nil || len(got) != 1 || got[0].ID != 77 {
				t.Errorf("%+v %v", got, err)
			}
			if len(told) != 1 || !strings.HasPrefix(told[0], path+"."+tt.kind+"-") || j.Err() != nil {
				t.Fatalf("told %q, err %v", told, j.Err())
			}
			if after, err := os.ReadFile(told[0]); err != nil || string(after) != string(before) {
				t.Errorf("what was set aside is not what was there: %v", err)
			}
			if d := j.Degraded(); len(d) != 1 || !strings.Contains(d[0], told[0]) || j.Stats().Aside != 1 {
				t.Errorf("%q %+v", d, j.Stats())
			}
		})
	}
}

// Only so many files are set aside.
func TestAsideBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "history.db")
	now := noon
	for range 6 {
		journalAt(t, path, &now).Close()
		os.WriteFile(path, []byte("spoiled, and long enough not to be a new file"), 0o600)
		now = now.Add(time.Second)
	}
	journalAt(t, path, &now).Close()
	names, err := filepath.Glob(path + ".*")
	if err != nil || len(names) != maxAside {
		t.Errorf("%q %v", names, err)
	}
}

// A row that was changed behind our back is not given out, the others are.
func TestDamagedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "history.db")
	j := open(t, path)
	write(t, j, Batch{Sessions: []Session{session(1, noon), session(2, noon)}, Events: records(1, 5, 0), Zero: noon,
		Processes: []Process{{PID: 5, Start: 1, Session: 1, Doc: []byte(`{}`)}, {PID: 6, Start: 1, Session: 1, Doc: []byte(`{}`)}}})
	write(t, j, Batch{Events: records(10, 5, 0), Zero: noon})
	j.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`UPDATE sessions SET uid = 'x' WHERE id = 1; UPDATE events SET data = x'01' WHERE first = 1; UPDATE processes SET doc = x'02' WHERE pid = 5`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	if got, err := j.Ended(t.Context(), Query{Limit: 9}); err != nil || len(got) != 1 || got[0].ID != 2 {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := j.Processes(t.Context(), "b1", 1); err != nil || len(got) != 1 || got[0].PID != 6 {
		t.Errorf("%+v %v", got, err)
	}
	if b, err := j.Next(t.Context(), 0, time.Time{}, "", 0); err != nil || b == nil || b.Records[0].Seq != 10 {
		t.Errorf("%+v %v", b, err)
	}
	if n := j.Stats().Damaged; n != 3 {
		t.Errorf("%d are counted", n)
	}
}

// What is not ours alone is not touched.
func TestNotOurs(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"link": func(path string) error {
			os.WriteFile(path+".target", nil, 0o600)
			return os.Symlink(path+".target", path)
		},
		"second name": func(path string) error {
			os.WriteFile(path, nil, 0o600)
			return os.Link(path, path+".link")
		},
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.db")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			j := open(t, path)
			if j.Err() == nil || j.Write(t.Context(), &Batch{Sessions: []Session{session(1, noon)}}) == nil {
				t.Error("it was taken")
			}
		})
	}
}
