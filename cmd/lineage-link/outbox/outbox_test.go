//go:build linux

package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func open(t *testing.T, path string, most int64) (*statedir.Dir, *Box) {
	t.Helper()
	dir, err := statedir.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	b, err := Open(dir, most)
	require.NoError(t, err)
	return dir, b
}

func thing(n int) *Item {
	return &Item{Head: Head{ID: fmt.Sprint("id-", n), Ended: time.Unix(int64(n), 0).UTC()}, Body: bytes.Repeat([]byte{byte(n)}, 100)}
}

// TestOutbox: items come out as they went in, the oldest first, also after a restart; a repeat is one item.
func TestOutbox(t *testing.T) {
	path := t.TempDir()
	dir, b := open(t, path, 10_000)
	for n := range 20 {
		require.NoError(t, b.Put(thing(n)), b.Put(thing(n)))
	}
	for n := range 20 {
		if n == 10 {
			dir.Close()
			_, b = open(t, path, 10_000)
			require.NoError(t, b.Put(thing(15)))
		}
		got, err := b.First()
		require.NoError(t, err)
		want := thing(n)
		if got.ID != want.ID || !got.Ended.Equal(want.Ended) || !bytes.Equal(got.Body, want.Body) || !b.Has(want.ID) {
			t.Fatalf("item %d: %+v", n, got)
		}
		require.NoError(t, b.Remove())
		if b.Has(want.ID) {
			t.Errorf("item %d is there after its removal", n)
		}
	}
	if got, err := b.First(); got != nil || err != nil {
		t.Errorf("%v %v of an empty outbox", got, err)
	}
}

// TestFull: without room what comes is refused, and what is there stays.
func TestFull(t *testing.T) {
	path := t.TempDir()
	_, b := open(t, path, 250)
	require.NoError(t, b.Put(thing(0)), b.Put(thing(1)))
	require.ErrorIs(t, b.Put(thing(2)), ErrFull, "a third item")
	require.NoError(t, b.Remove(), b.Put(thing(2)))
	if items, size := b.Size(); items != 2 || size != 200 {
		t.Errorf("%d items, %d bytes", items, size)
	}
	got, err := b.First()
	require.NoError(t, err)
	require.Equal(t, got.ID, "id-1")
}

// TestDamaged: a file that is cut off is named; it is not sent.
func TestDamaged(t *testing.T) {
	path := t.TempDir()
	dir, b := open(t, path, 1000)
	require.NoError(t, b.Put(thing(0)), os.Truncate(dir.Path("0000000000000000.receipt"), 90))
	if _, err := Open(dir, 1000); err == nil || !strings.Contains(err.Error(), "0000000000000000.receipt: it is cut off; remove it") {
		t.Errorf("%v", err)
	}
}

// TestUnwritable: an item that cannot be written is not there.
func TestUnwritable(t *testing.T) {
	path := t.TempDir()
	_, b := open(t, path, 1000)
	require.NoError(t, b.Put(thing(0)), os.RemoveAll(path))
	if err := b.Put(thing(1)); err == nil || errors.Is(err, ErrFull) || b.Has("id-1") {
		t.Errorf("%v", err)
	}
}
