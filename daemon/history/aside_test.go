//go:build linux

package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
)

// An unusable file is set aside, whole, and another one begun.
func TestSetAside(t *testing.T) {
	good := journalHistory(t)
	j := open(t, good)
	for i := range uint64(50) {
		write(t, j, Batch{Sessions: []Session{session(i+1, noon)}, Events: records(i*10+1, 10, 0), Zero: noon})
	}
	j.Close()
	bytes, err := os.ReadFile(good)
	require.NoError(t, err)
	altered := func(q string) func(string) { return func(path string) { alter(t, path, q) } }
	for name, tt := range map[string]struct {
		spoil func(path string)
		kind  string
	}{
		"older":    {altered("PRAGMA user_version = 2"), "version"},
		"newer":    {altered("PRAGMA user_version = 99"), "version"},
		"foreign":  {altered("PRAGMA application_id = 5"), "foreign"},
		"trigger":  {altered("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM sessions; END"), "damaged"},
		"no table": {altered("DROP TABLE processes"), "damaged"},
		"column":   {altered("ALTER TABLE events ADD COLUMN x"), "damaged"},
		"no index": {altered("DROP INDEX events_boot"), "damaged"},
		"view":     {altered("CREATE VIEW v AS SELECT 1"), "damaged"},
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
			require.NoError(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, bytes, 0o600)))
			tt.spoil(path)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			var renamed []string
			j := OpenJournal(path, JournalOptions{Boot: "b1", Now: func() time.Time { return noon }, Changed: func(_ error, aside string) {
				if aside != "" {
					renamed = append(renamed, aside)
				}
			}})
			defer j.Close()
			write(t, j, Batch{Sessions: []Session{session(77, noon)}})
			require.Equal(t, listed(j.Ended(t.Context(), Query{Limit: 10})), "77 <nil>")
			if len(renamed) != 1 || !strings.HasPrefix(renamed[0], path+"."+tt.kind+"-") || j.Err() != nil {
				t.Fatalf("aside %q, err %v", renamed, j.Err())
			}
			if after, err := os.ReadFile(renamed[0]); err != nil || string(after) != string(before) {
				t.Errorf("what was set aside is not what was there: %v", err)
			}
			if d := j.Degraded(); len(d) != 1 || !strings.Contains(d[0], renamed[0]) || j.Stats().Aside != 1 {
				t.Errorf("%q %+v", d, j.Stats())
			}
		})
	}
}

// A limited number of files is set aside.
func TestAsideBounded(t *testing.T) {
	path := journalHistory(t)
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

// A row that was changed behind our back is not returned, even if it can still be decoded; the others are.
func TestDamagedRow(t *testing.T) {
	path := journalHistory(t)
	j := open(t, path)
	write(t, j, Batch{Sessions: []Session{session(1, noon), session(2, noon), session(3, noon)}, Events: records(1, 5, 0), Zero: noon,
		Processes: []Process{{PID: 5, Start: 1, Session: 1, Doc: []byte(`{}`)}, {PID: 6, Start: 1, Session: 1, Doc: []byte(`{}`)}}})
	write(t, j, Batch{Events: records(10, 5, 0), Zero: noon})
	write(t, j, Batch{Events: records(20, 5, 0), Zero: noon})
	j.Close()
	other := records(10, 5, 0)
	other[2].Image = &lineage.Image{Comm: "a", Exe: "/bin/a", Argv: []string{"a", "-c"}}
	data, err := encode(other)
	require.NoError(t, err)
	alter(t, path, `UPDATE sessions SET uid = 'x' WHERE id = 1; UPDATE sessions SET doc = '{"a":2}' WHERE id = 3;
		UPDATE processes SET doc = x'02' WHERE pid = 5; UPDATE events SET data = x'01' WHERE first = 1`)
	alter(t, path, `UPDATE events SET data = ? WHERE first = 10`, data)
	j = open(t, path)
	require.Equal(t, listed(j.Ended(t.Context(), Query{Limit: 9})), "2 <nil>")
	require.Equal(t, listed(j.Processes(t.Context(), "b1", 1)), "6 <nil>")
	require.Equal(t, seq(j.Next(t.Context(), 0, time.Time{}, "", 0)), "20")
	require.Equal(t, j.Stats().Damaged, 5)
}

// TestMovedAway: if the file is moved away while it is written, another one is begun.
func TestMovedAway(t *testing.T) {
	path := journalHistory(t)
	j := open(t, path)
	write(t, j, Batch{Sessions: []Session{session(1, noon)}})
	for _, part := range parts {
		require.NoError(t, os.Rename(path+part, path+".away"+part))
	}
	write(t, j, Batch{Sessions: []Session{session(2, noon)}})
	j.Close()
	j = open(t, path)
	require.Equal(t, listed(j.Ended(t.Context(), Query{Limit: 9})), "2 <nil>")
}

// TestDoubtful: after an error that has no other cause the file is read as a whole before it is
// written again.
func TestDoubtful(t *testing.T) {
	path := journalHistory(t)
	j := open(t, path)
	write(t, j, Batch{Sessions: []Session{session(1, noon)}})
	alter(t, path, "DROP TABLE processes")
	if err := j.Write(t.Context(), &Batch{Processes: []Process{{PID: 5, Start: 1, Session: 1, Doc: []byte(`{}`)}}}); err == nil {
		t.Fatal("it was written")
	}
	if j.checked {
		t.Error("it counts as checked")
	}
}

// TestReplaceable: the history is not kept where another user could replace its directory. A directory that others may
// read is made private; one that belongs to another user is not used.
func TestReplaceable(t *testing.T) {
	require.Root(t)
	for _, x := range []struct {
		parent, mode os.FileMode
		uid          int
		kept         bool
	}{
		{0o755, 0o755, 0, true}, {0o777, 0o700, 0, false}, {0o775, 0o700, 0, false}, {os.ModeSticky | 0o777, 0o700, 0, true}, {0o755, 0o755, 1000, false},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "s.state")
		require.NoError(t, errors.Join(os.Chmod(parent, x.parent), os.Mkdir(dir, 0o700), os.Chmod(dir, x.mode), os.Chown(dir, x.uid, x.uid)))
		j := open(t, filepath.Join(dir, "history.db"))
		st, err := os.Stat(dir)
		require.NoError(t, err)
		if kept, private := j.Err() == nil, st.Mode().Perm() == 0o700; kept != x.kept || private != (x.uid == 0) {
			t.Errorf("%+v: kept %v, private %v: %v", x, kept, private, j.Err())
		}
	}
}
