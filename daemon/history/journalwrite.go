//go:build linux

package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Session is a session's row. Doc, Report and State are JSON and opaque here; Report
// and State may be nil.
type Session struct {
	Boot    string
	ID      tracer.SessionID // the kernel's, at most 63 bits
	Word    string           // as users write it
	Name    string
	UID     uint32
	Parent  tracer.SessionID
	Zero    time.Time // wall time at boottime 0
	Started time.Time
	Ended   time.Time // zero: it lives
	Doc     []byte
	Report  []byte
	State   []byte
}

var sessionTable = table{"sessions",
	"boot, id, word, name, uid, parent, zero, started, ended, doc, report, state"}

func (s *Session) fields() []any {
	return []any{
		&s.Boot, &s.ID, &s.Word, &s.Name, &s.UID, &s.Parent, wall{&s.Zero}, wall{&s.Started},
		wall{&s.Ended}, &s.Doc, &s.Report, &s.State,
	}
}

// Process is a process's row, of this boot when it is written. Doc is opaque here.
type Process struct {
	PID     uint32
	Start   uint64
	Session tracer.SessionID
	Doc     []byte

	boot string
}

var processTable = table{"processes", "boot, pid, start, session, doc"}

func (p *Process) fields() []any { return []any{&p.boot, &p.PID, &p.Start, &p.Session, &p.Doc} }

type Batch struct {
	Sessions  []Session
	Processes []Process
	Gone      []Process          // rows to delete
	LetGo     []tracer.SessionID // of this boot: dissolved, nothing of them is kept
	Events    []Record           // by Seq, at most MaxBlock
	Zero      time.Time
	// Spare reports whether the row of a process of a live session may be deleted if nothing else makes
	// room; it is deleted then. nil: none.
	Spare func(pid uint32, start uint64, session tracer.SessionID) bool
}

// reserved is the part of the file in which only sessions are written, with their receipts.
func (j *Journal) reserved() int64 { return j.o.MaxBytes / 16 }

// errFull means that only what is reserved for sessions is left of the file.
var errFull = errors.New("live sessions take all of it")

// size estimates how many bytes it takes in the file, with its events encoded.
func (b *Batch) size(events []byte) int64 {
	const row = 512 // identities, what indexes repeat, what stays free in pages
	n := row*(len(b.Sessions)+len(b.Processes)) + len(events)
	for i := range b.Sessions {
		n += len(b.Sessions[i].Doc) + len(b.Sessions[i].Report) + len(b.Sessions[i].State)
	}
	for i := range b.Processes {
		n += len(b.Processes[i].Doc)
		if len(b.Processes[i].Doc) > pageSize/5 {
			n += pageSize // more than a fifth of a page gets a page of its own
		}
	}
	return int64(n)
}

func (b *Batch) Empty() bool {
	return len(b.Sessions)+len(b.Processes)+len(b.Gone)+len(b.LetGo)+len(b.Events) == 0
}

// Write writes a batch, all of it or, with an error, nothing. Existing rows are
// replaced. If live sessions take all of the file, processes and events are left out, and Degraded
// says so.
func (j *Journal) Write(ctx context.Context, b *Batch) error {
	if b.Empty() {
		return nil
	}
	err := j.write(ctx, b)
	if kindOf(err) != "" {
		if err = j.replace(ctx, err); err == nil {
			err = j.write(ctx, b)
		}
	}
	full := errors.Is(err, errFull)
	if full {
		err = nil // nothing is wrong with the file
	}
	if err != nil {
		j.disconnect()
		if doubtful(err) {
			j.checked = false
		}
	}
	j.mu.Lock()
	if len(b.Processes)+len(b.Events) > 0 {
		j.full = full
	}
	if err != nil || full {
		j.stats.Failed++
	} else {
		j.stats.Batches++
		j.stats.Events += uint64(len(b.Events))
		j.stats.Sessions += uint64(len(b.Sessions))
	}
	j.mu.Unlock()
	j.note(err)
	return err
}

func (j *Journal) write(ctx context.Context, b *Batch) error {
	if j.writing() != nil && j.moved() {
		j.disconnect() // what is written to it is lost
	}
	if j.writing() == nil {
		if err := j.open(ctx); err != nil {
			return err
		}
	}
	if err := j.Check(ctx); err != nil {
		return err
	}
	data, err := encode(b.Events)
	if err != nil {
		return err
	}
	w := j.writing()
	used, err := j.retain(ctx, w, b, b.size(data))
	if err != nil {
		return err
	}
	if len(b.Processes)+len(b.Events) > 0 && used+b.size(data) > j.o.MaxBytes-j.reserved() {
		return errFull
	}
	if err := inTx(ctx, w, func(tx *sql.Tx) error { return j.put(ctx, tx, b, data) }); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

func (j *Journal) put(ctx context.Context, tx *sql.Tx, b *Batch, data []byte) error {
	remove := func(q string, args ...any) error {
		_, err := tx.ExecContext(ctx, q, append([]any{j.o.Boot}, args...)...)
		return err
	}
	for _, id := range b.LetGo {
		for _, q := range []string{
			"DELETE FROM processes WHERE boot = ? AND session = ?",
			"DELETE FROM sessions WHERE boot = ? AND id = ?",
		} {
			if err := remove(q, id); err != nil {
				return err
			}
		}
	}
	if err := sessionTable.put(ctx, tx, len(b.Sessions),
		func(i int) []any { return b.Sessions[i].fields() }); err != nil {
		return err
	}
	for i := range b.Sessions {
		if s := &b.Sessions[i]; !s.Ended.IsZero() && s.Report != nil {
			const number = "INSERT OR IGNORE INTO ends SELECT max(?, coalesce(max(number), 0) + 1), ?, ? FROM ends"
			if _, err := tx.ExecContext(ctx, number, j.o.Now().UnixMicro(), s.Boot, s.ID); err != nil {
				return err
			}
		}
	}
	processes := func(i int) []any { b.Processes[i].boot = j.o.Boot; return b.Processes[i].fields() }
	if err := processTable.put(ctx, tx, len(b.Processes), processes); err != nil {
		return err
	}
	for _, p := range b.Gone {
		if err := remove("DELETE FROM processes WHERE boot = ? AND pid = ? AND start = ?",
			p.PID, p.Start); err != nil {
			return err
		}
	}
	return j.putEvents(ctx, tx, b, data)
}

func (j *Journal) putEvents(ctx context.Context, tx *sql.Tx, b *Batch, data []byte) error {
	n := len(b.Events)
	if n == 0 {
		return nil
	}
	x := Block{Boot: j.o.Boot, Zero: b.Zero, first: b.Events[0].Seq, last: b.Events[n-1].Seq, data: data}
	began, ended := b.Events[0].Time, b.Events[0].Time
	for i := range b.Events {
		began, ended = min(began, b.Events[i].Time), max(ended, b.Events[i].Time)
	}
	zero := b.Zero.UnixNano()
	x.began, x.ended = zero+int64(began), zero+int64(ended)
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) + 1 FROM events").Scan(&x.ID); err != nil {
		return err
	}
	return eventTable.put(ctx, tx, 1, func(int) []any { return x.fields() })
}
