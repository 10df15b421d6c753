//go:build linux

package history

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// sample is a file with a row in every table.
var sample = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "lngtest-journal-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state", "history.db")
	j := OpenJournal(path, JournalOptions{Boot: "b1", Now: func() time.Time { return noon }})
	for n := range uint64(4) {
		b := Batch{Sessions: []Session{session(n+1, noon), session(n+10, time.Time{})}, Events: records(n*10+1, 10, 0), Zero: noon,
			Processes: []Process{{PID: 5, Start: n, Session: tracer.SessionID(n), Doc: []byte(`{}`)}}}
		err = errors.Join(err, j.Write(context.Background(), &b))
	}
	j.Close()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// patch changes a good file: three bytes of offset, one of length, and that
// many bytes, again and again.
func patch(file, patches []byte) []byte {
	file = append([]byte{}, file...)
	for len(patches) > 4 {
		at := int(patches[0])<<16 | int(patches[1])<<8 | int(patches[2])
		n := min(int(patches[3]), len(patches)-4)
		copy(file[at%len(file):], patches[4:4+n])
		patches = patches[4+n:]
	}
	return file
}

// memoryDir is a directory in memory, if the system has one: a fuzzer's writes must not
// wait for a disk.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "lngtest-journal-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// FuzzFile: a file that is not as we wrote it is read without a crash or a hang, and
// never written as if it were good: after a write, the current file is sound and has
// it.
func FuzzFile(f *testing.F) {
	good, err := sample()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw bool, data, log []byte) {
		file := data
		if !raw {
			file = patch(good, data)
		}
		dir := filepath.Join(memoryDir(t), "state")
		path := filepath.Join(dir, "history.db")
		require.NoError(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, file, 0o600)))
		if len(log) > 0 {
			require.NoError(t, os.WriteFile(path+"-wal", log, 0o600))
		}
		ctx := t.Context()
		j := OpenJournal(path, JournalOptions{Boot: "b1", MaxAge: time.Hour, Now: func() time.Time { return noon }})
		defer j.Close()
		look := func() {
			live, _ := j.Live(ctx)
			ended, _ := j.Ended(ctx, Query{Limit: 100})
			for _, s := range append(live, ended...) {
				if _, err := j.Processes(ctx, s.Boot, s.ID); err != nil {
					break
				}
			}
			_, _ = j.Find(ctx, "name1")
			for after := int64(-1 << 63); ; {
				b, err := j.Next(ctx, after, time.Time{}, "", 0)
				if err != nil || b == nil {
					break
				}
				after = b.ID
			}
		}
		look()
		s := session(1<<40, noon)
		if err := j.Write(ctx, &Batch{Sessions: []Session{s}}); err != nil {
			t.Skip(err) // the error is reported: nothing is written as if the file were good
		}
		look()
		if got, err := j.Session(ctx, s.Boot, s.ID); err != nil || got == nil {
			t.Fatalf("what was written is not there: %v", err)
		}
		require.NoError(t, check(ctx, j.writer))
		if fresh, err := known(ctx, j.writer); err != nil || fresh {
			t.Fatalf("fresh: %v, %v", fresh, err)
		}
	})
}

// FuzzBlock: any bytes decode to a block or an error; a block can be encoded again.
func FuzzBlock(f *testing.F) {
	for _, n := range []int{0, 1, 30} {
		b, err := encode(records(1, n, time.Hour))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := decode(b)
		if err != nil {
			return
		}
		again, err := encode(records)
		require.NoError(t, err)
		if got, err := decode(again); err != nil || len(got) != len(records) {
			t.Fatalf("%d events, %d before: %v", len(got), len(records), err)
		}
	})
}
