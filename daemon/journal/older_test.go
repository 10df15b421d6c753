//go:build linux

package journal

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// older is a file of the first schema, as that version wrote it.
func older(t *testing.T) (path string) {
	t.Helper()
	f, err := os.Open("testdata/schema1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "history.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file of an older version is taken over with all that is in it.
func TestOlder(t *testing.T) {
	path := older(t)
	j := open(t, path)
	write(t, j, Batch{Sessions: []Session{session(50, noon)}, Events: records(100, 1, 0), Zero: noon})
	if st := j.Stats(); st.Aside != 0 || st.Damaged != 0 {
		t.Fatalf("%+v", st)
	}
	all, err := j.Ended(t.Context(), Query{Limit: 10})
	if err != nil || len(all) != 5 {
		t.Errorf("%d ended sessions, want 4 and a new one: %v", len(all), err)
	}
	n := 0
	for after := int64(0); ; {
		b, err := j.Next(t.Context(), after, time.Time{}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			break
		}
		after, n = b.ID, n+len(b.Records)
	}
	if n != 41 {
		t.Errorf("%d events, want 40 and a new one", n)
	}
}
