//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const (
	bookBirths = 16_384
	birthBytes = 32
)

// newBook makes the file in which the processes of a storm note their births.
func newBook(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "births")
	require.NoError(t, os.WriteFile(path, make([]byte, (1+bookBirths)*birthBytes), 0o600))
	return path
}

// noted counts the births of a book, and says when the last member was called into life or ran, by CLOCK_MONOTONIC.
func noted(t *testing.T, path string) (born int, last int64) {
	t.Helper()
	text := require.ReadFile(t, path)
	n := int(binary.NativeEndian.Uint64(text))
	if n > bookBirths {
		t.Fatalf("%d births, more than the book has room for", n)
	}
	for i := 1; i <= n; i++ {
		var at [birthBytes / 8]int64 // called, returned, ran, still
		for k := range at {
			at[k] = int64(binary.NativeEndian.Uint64(text[i*birthBytes+8*k:]))
		}
		if at[0] == 0 || at[1] < 0 { // killed before the call; refused
			continue
		}
		if at[1] > 0 || at[2] > 0 {
			born++
		}
		last = max(last, at[0], at[2])
	}
	return born, last
}

func monotonic(t *testing.T, at time.Time) int64 {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano() - int64(time.Since(at.Round(0)))
}

// TestFleetStorm: one end reaches the storms of three hosts, which fork up to 5,000 times a second in all. When the
// verdicts come, no process of the sessions lives, none was born, or began to run, after the time that its host's receipt
// says, and the receipt counts all.
func TestFleetStorm(t *testing.T) {
	f := newFleet(t, true)
	var markers []*stage.Marker
	var books []string
	for _, h := range f.hosts {
		m, book := stage.NewMarker(t, t.TempDir()), newBook(t)
		h.Run(m, []string{"--name", "storm", "--grace", "0s"}, "births", book, "1667", "30", "8")
		markers, books = append(markers, m), append(books, book)
		h.Until("storm", func() bool { return h.Lineage("tree", "storm").Code() == 0 && h.Session("storm").Forks > 100 })
	}
	for n, a := range f.answers(api.ExitOK, "end", "storm", "--sign", f.key, "--reason", "case 7", "--yes", "-H", "web1,web2,web3") {
		markers[n].MustBeGone()
		var d api.CommandReply
		require.NoError(t, json.Unmarshal(a.Document, &d))
		reports := receipt(t, &d).Reports
		if len(reports) != 1 || reports[0].Verdict != api.VerdictClean || reports[0].Ended == nil {
			t.Fatalf("%s: %+v", a.Host, reports)
		}
		born, last := noted(t, books[n])
		before := time.Duration(monotonic(t, *reports[0].Ended) - last)
		t.Logf("figure: %s: %d births, the last one began %v before the end of the session; the receipt counts %d members", a.Host, born, before, reports[0].Started)
		if before < 0 || born < 100 || reports[0].Started < born {
			t.Errorf("%s: a member was born, or ran, after the verdict, or was not counted", a.Host)
		}
	}
}
