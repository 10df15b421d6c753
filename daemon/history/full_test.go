//go:build linux

package history

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

func lives(id uint64, uid uint32) Session {
	s := session(id, time.Time{})
	s.UID = uid
	return s
}

// crowd are processes of a session, the first of them the oldest, each of which takes a page.
func crowd(first, n int, of tracer.SessionID) (all []Process) {
	for i := range n {
		all = append(all, Process{PID: uint32(first + i), Start: uint64(first + i), Session: of, Doc: make([]byte, 3500)})
	}
	return all
}

// TestFullOfTheLiving: live sessions of a user that fill the file lose dead processes, the largest
// session first. Those of other users stay, and every receipt is written.
func TestFullOfTheLiving(t *testing.T) {
	const limit = 4 << 20
	j := OpenJournal(journalHistory(t), JournalOptions{Boot: "b1", MaxBytes: limit, Now: func() time.Time { return noon }})
	defer j.Close()
	spare := func(pid uint32, _ uint64, of tracer.SessionID) bool { return of != 2 || pid%2 == 0 } // the others live
	write(t, j, Batch{Sessions: []Session{lives(1, 1000), lives(2, 1001), lives(3, 1001)}, Spare: spare})
	write(t, j, Batch{Processes: crowd(1, 100, 1), Spare: spare})
	write(t, j, Batch{Processes: crowd(10001, 50, 3), Spare: spare})
	for first := 1000; first < 1700; first += 100 {
		write(t, j, Batch{Processes: crowd(first, 100, 2), Spare: spare})
	}
	if all, err := j.Processes(t.Context(), "b1", 2); err != nil || len(all) < 300 || len(all) == 700 || all[0].PID != 1001 || all[len(all)-1].PID != 1699 {
		t.Errorf("%d processes of the largest session are left, %v", len(all), err)
	}
	count := func(id tracer.SessionID) int {
		all, err := j.Processes(t.Context(), "b1", id)
		require.NoError(t, err)
		return len(all)
	}
	if count(1) != 100 || count(3) != 50 {
		t.Errorf("%d and %d processes of smaller sessions are left", count(1), count(3))
	}
	if d := j.Degraded(); len(d) != 0 {
		t.Errorf("%q although dead processes can go", d)
	}
	// Now live ones fill it.
	for first := 1700; first < 4000; first += 100 {
		write(t, j, Batch{Processes: crowd(first, 100, 2), Spare: spare})
	}
	for pid := 4001; pid < 4400; pid += 2 { // up to the last page
		write(t, j, Batch{Processes: crowd(pid, 1, 2), Spare: spare})
	}
	if count(1) != 100 {
		t.Errorf("%d processes of another user are left", count(1))
	}
	if d := j.Degraded(); len(d) != 1 || j.Err() != nil || j.Stats().Failed == 0 {
		t.Errorf("%q, %v", d, j.Err())
	}
	over := session(4, noon)
	over.Report = make([]byte, 200<<10)
	write(t, j, Batch{Sessions: []Session{over}, Spare: spare})
	if got, err := j.Find(t.Context(), over.Word); err != nil || len(got) != 1 || len(got[0].Report) != len(over.Report) {
		t.Errorf("the receipt of another session is not there: %v", err)
	}
	var gone []Process
	for pid := uint32(1000); pid < 4400; pid++ {
		gone = append(gone, Process{PID: pid, Start: uint64(pid)})
	}
	write(t, j, Batch{Gone: gone})
	write(t, j, Batch{Processes: crowd(5001, 10, 1), Spare: spare})
	if d := j.Degraded(); len(d) != 0 || count(1) != 110 {
		t.Errorf("%q although there is room", d)
	}
}
