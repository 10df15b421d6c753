//go:build linux

package history

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
)

func TestMaxAge(t *testing.T) {
	now := noon
	path := journalHistory(t)
	j := OpenJournal(path, JournalOptions{Boot: "b1", MaxAge: time.Hour, Now: func() time.Time { return now }})
	defer j.Close()
	write(t, j, Batch{Sessions: []Session{session(1, noon), session(2, time.Time{}), session(3, noon.Add(2*time.Hour))},
		Processes: []Process{{PID: 5, Start: 1, Session: 1, Doc: []byte(`{}`)}, {PID: 5, Start: 2, Session: 2, Doc: []byte(`{}`)}},
		Events:    records(1, 5, 0), Zero: noon})
	now = noon.Add(2 * time.Hour)
	write(t, j, Batch{Events: records(10, 5, 2*time.Hour), Zero: noon})
	require.Equal(t, listed(j.Ended(t.Context(), Query{Limit: 10})), "3 <nil>")
	require.Equal(t, listed(j.Live(t.Context())), "2 <nil>")
	require.Equal(t, listed(j.Processes(t.Context(), "b1", 1)), "<nil>")
	require.Equal(t, listed(j.Processes(t.Context(), "b1", 2)), "5 <nil>")
	require.Equal(t, seq(j.Next(t.Context(), 0, time.Time{}, "", 0)), "10")
	if j.Stats().Pruned == 0 {
		t.Error("nothing was counted")
	}
}

// The file does not grow beyond its limit, and keeps the newest.
func TestMaxSize(t *testing.T) {
	for _, pause := range []time.Duration{time.Minute, time.Millisecond} { // usual, and in a storm
		now := noon
		path := journalHistory(t)
		const limit = 4 << 20
		j := OpenJournal(path, JournalOptions{Boot: "b1", MaxBytes: limit, Now: func() time.Time { return now }})
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
		j.Close()
		j = open(t, path)
		if b, err := j.Next(t.Context(), 0, time.Time{}, "b1", last); err != nil || b == nil {
			t.Errorf("the newest is gone: %v", err)
		}
		if first := seq(j.Next(t.Context(), 0, time.Time{}, "", 0)); first == "1" {
			t.Error("the oldest is there")
		}
	}
}

// bulky are 100 events that take 200 KB however they are encoded.
func bulky(first uint64, at time.Duration) []Record {
	r := rand.New(rand.NewPCG(first, 2))
	rs := records(first, 100, at)
	for i := range rs {
		text := make([]byte, 2000)
		for k := range text {
			text[k] = byte(r.Uint32())
		}
		rs[i].Image = &lineage.Image{Exe: string(text)}
	}
	return rs
}

// A session whose end needs more than is free in the file gets its room.
func TestLargeBatch(t *testing.T) {
	const limit = 4 << 20
	j := OpenJournal(journalHistory(t), JournalOptions{Boot: "b1", MaxBytes: limit, Now: func() time.Time { return noon }})
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
