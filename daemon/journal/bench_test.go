//go:build linux

package journal

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// filled makes a file with n processes of ten sessions, two of which live.
func filled(b *testing.B, n int) string {
	b.Helper()
	path := history(b)
	j := open(b, path)
	doc := bytes.Repeat([]byte("x"), 600) // about what a process of one command has
	batch := Batch{Zero: noon}
	for s := range uint64(10) {
		x := session(s, noon)
		if s < 2 {
			x.Ended = time.Time{}
		}
		batch.Sessions = append(batch.Sessions, x)
	}
	for i := range n {
		batch.Processes = append(batch.Processes, Process{PID: uint32(i), Start: uint64(i), Session: tracer.SessionID(i % 10), Doc: doc})
		if len(batch.Processes) == 4096 || i == n-1 {
			batch.Events = records(uint64(i)*10, MaxBlock, time.Duration(i))
			write(b, j, batch)
			batch = Batch{Zero: noon}
		}
	}
	j.Close()
	return path
}

// BenchmarkStart is what a daemon waits for when it starts: to open, and to
// read the live sessions and their processes.
func BenchmarkStart(b *testing.B) {
	path := filled(b, 100_000)
	for b.Loop() {
		j := open(b, path)
		live, err := j.Live(b.Context())
		if err != nil || len(live) != 2 {
			b.Fatal(len(live), err)
		}
		for _, s := range live {
			if all, err := j.Processes(b.Context(), s.Boot, s.ID); err != nil || len(all) != 10_000 {
				b.Fatal(len(all), err)
			}
		}
		j.Close()
	}
}

// BenchmarkCheck reads the structure of a file, which is done after the start.
func BenchmarkCheck(b *testing.B) {
	path := filled(b, 100_000)
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	for b.Loop() {
		j := open(b, path)
		if err := j.Check(b.Context()); err != nil {
			b.Fatal(err)
		}
		j.Close()
	}
}

// BenchmarkWrite is a batch of 250 ms at 5,000 forks/s: birth, exec, exit and
// reaping of each, and the rows of those that stay.
func BenchmarkWrite(b *testing.B) {
	j := open(b, history(b))
	seq := uint64(1)
	for n := uint64(0); b.Loop(); n++ {
		for range 5000 / MaxBlock {
			write(b, j, Batch{Events: records(seq, MaxBlock, time.Duration(seq)), Zero: noon})
			seq += MaxBlock
		}
		batch := Batch{Events: records(seq, 5000%MaxBlock, time.Duration(seq)), Zero: noon}
		seq += 5000 % MaxBlock
		for i := range 1250 {
			batch.Processes = append(batch.Processes, Process{PID: uint32(i), Start: n, Session: 7, Doc: fmt.Appendf(nil, "%0600d", i)})
		}
		write(b, j, batch)
	}
}
