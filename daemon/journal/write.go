//go:build linux

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
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

func (s *Session) sum() uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%s\x00%d\x00%s\x00%s\x00%d\x00%d\x00%d\x00%d\x00%d\x00", s.Boot, s.ID, s.Word, s.Name, s.UID, s.Parent,
		s.Zero.UnixNano(), s.Started.UnixNano(), nano(s.Ended))
	for _, b := range [][]byte{s.Doc, s.Report, s.State} {
		h.Write(strconv.AppendInt(nil, int64(len(b)), 10))
		h.Write(b)
	}
	return h.Sum32()
}

// nano is t for the file: 0 if it is zero.
func nano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Process is a process's row, of this boot when it is written. Doc is opaque here.
type Process struct {
	PID     uint32
	Start   uint64
	Session tracer.SessionID
	Doc     []byte
}

func (p *Process) sum(boot string) uint32 {
	h := crc32.NewIEEE()
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%d\x00", boot, p.PID, p.Start, p.Session)
	h.Write(p.Doc)
	return h.Sum32()
}

// Batch is what is written together.
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

// Empty reports whether there is nothing to write.
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
	if err != nil && damaged(err) {
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
			j.checked = file{}
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
	for _, id := range b.LetGo {
		for _, q := range []string{
			"DELETE FROM listeners WHERE boot = ? AND session = ?",
			"DELETE FROM processes WHERE boot = ? AND session = ?",
			"DELETE FROM sessions WHERE boot = ? AND id = ?",
		} {
			if _, err := tx.ExecContext(ctx, q, j.o.Boot, int64(id)); err != nil {
				return err
			}
		}
	}
	for i := range b.Sessions {
		s := &b.Sessions[i]
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO sessions
			(boot, id, word, name, uid, parent, zero, started, ended, doc, report, state, sum) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			s.Boot, int64(s.ID), s.Word, s.Name, s.UID, int64(s.Parent), s.Zero.UnixNano(), s.Started.UnixNano(), wall{&s.Ended},
			s.Doc, s.Report, s.State, s.sum())
		if err != nil {
			return err
		}
		if s.Ended.IsZero() || s.Report == nil {
			continue
		}
		const number = "INSERT OR IGNORE INTO ends SELECT max(?, coalesce(max(number), 0) + 1), ?, ? FROM ends"
		if _, err := tx.ExecContext(ctx, number, j.o.Now().UnixMicro(), s.Boot, int64(s.ID)); err != nil {
			return err
		}
	}
	if len(b.Processes) > 0 {
		put, err := tx.PrepareContext(ctx, "INSERT OR REPLACE INTO processes (boot, pid, start, session, doc, sum) VALUES (?,?,?,?,?,?)")
		if err != nil {
			return err
		}
		defer put.Close()
		for i := range b.Processes {
			p := &b.Processes[i]
			if _, err := put.ExecContext(ctx, j.o.Boot, p.PID, int64(p.Start), int64(p.Session), p.Doc, p.sum(j.o.Boot)); err != nil {
				return err
			}
		}
	}
	for i := range b.Gone {
		p := &b.Gone[i]
		if _, err := tx.ExecContext(ctx, "DELETE FROM processes WHERE boot = ? AND pid = ? AND start = ?", j.o.Boot, p.PID, int64(p.Start)); err != nil {
			return err
		}
	}
	if err := j.putListeners(ctx, tx, b); err != nil {
		return err
	}
	if n := len(b.Events); n > 0 {
		first, last := &b.Events[0], &b.Events[n-1]
		began, ended := first.Time, first.Time
		for i := range b.Events {
			began, ended = min(began, b.Events[i].Time), max(ended, b.Events[i].Time)
		}
		zero := b.Zero.UnixNano()
		x := Block{Boot: j.o.Boot, Zero: b.Zero, first: first.Seq, last: last.Seq, began: zero + int64(began), ended: zero + int64(ended), data: data}
		_, err := tx.ExecContext(ctx, "INSERT INTO events (boot, zero, first, last, began, ended, data, sum) VALUES (?,?,?,?,?,?,?,?)",
			x.Boot, zero, int64(x.first), int64(x.last), x.began, x.ended, x.data, x.sum())
		return err
	}
	return nil
}
