//go:build linux

package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Archive answers from the history about what is no longer in memory, and about what has
// ended: memory forgets the dead of every session when others die, the history does not.
type Archive struct {
	r      *Recorder // with the registry, for what the history does not have yet
	access *access.Access
}

func NewArchive(r *Recorder, a *access.Access) *Archive { return &Archive{r, a} }

// Journal is the file, for readers of its events.
func (a *Archive) Journal() Store { return a.r.Journal }

// unread reports whether err means that the history could not be read, and logs it; the status says why.
func (a *Archive) unread(err error) bool {
	system.Failure(a.r.Log, err).Msg("history not read")
	return err != nil
}

type Past struct {
	Session
	doc   api.Session // as the caller may read it
	saved bool        // it is from memory, and the history has it too
}

// Has reports whether the history has all of a session that has ended, with those nested in it.
func (a *Archive) Has(v registry.View, s *registry.Session) bool {
	return !slices.ContainsFunc(v.Family(s.ID()),
		func(id tracer.SessionID) bool { return !a.r.marks.saved[id] })
}

// Session is an ended session of this boot that c may read; nil if the history cannot be read, or has removed it.
func (a *Archive) Session(ctx context.Context, id tracer.SessionID, c access.Caller) *Past {
	row, err := a.r.Journal.Session(ctx, a.r.Boot, id)
	if a.unread(err) || row == nil || row.Ended.IsZero() {
		return nil
	}
	p, err := decodePast(row, c)
	if err != nil {
		return nil // another version wrote it
	}
	return p
}

// Find finds an ended session of the history that c may read, by id, else the newest one of that name.
// missing is the error if there is none, or no history.
func (a *Archive) Find(ctx context.Context, word string, c access.Caller, v access.Verb,
	missing error) (*Past, error) {
	if !api.IsSessionWord(word) {
		return nil, missing
	}
	rows, err := a.r.Journal.Find(ctx, word)
	if a.unread(err) {
		return nil, missing
	}
	var refused *Session
	for i := range rows {
		row := &rows[i]
		if row.Ended.IsZero() {
			continue // if it were live, memory would have it
		}
		if !access.Decide(c, access.Read, a.Scope(ctx, row)).Allow {
			refused = row
			continue
		}
		if d := access.Decide(c, v, a.Scope(ctx, row)); !d.Allow {
			return nil, a.access.Refuse(c, v, word, d)
		}
		return decodePast(row, c)
	}
	if refused != nil {
		missing = a.access.Hide(c, v, word, access.Decide(c, v, a.Scope(ctx, refused)), missing)
	}
	return nil, missing
}

// decodePast decodes a row, without what c may not read.
func decodePast(row *Session, c access.Caller) (*Past, error) {
	p := &Past{Session: *row}
	if err := json.Unmarshal(row.Doc, &p.doc); err != nil {
		return nil, fmt.Errorf("read session %s of the history: %w", row.Word, err)
	}
	p.doc = *document.ReadableSession(&p.doc, c)
	return p, nil
}

// Scope is a session of the history as access sees it. It has no members any longer, so
// it is not in its own chain: another session may have its id now.
func (a *Archive) Scope(ctx context.Context, row *Session) access.Scope {
	scope := access.Scope{UID: row.UID, Name: row.Name}
	if row.Boot == a.r.Boot {
		scope.Chain, _ = a.Line(ctx, row) // what is known of it
		scope.Chain[0] = 0
	}
	return scope
}

// Line is a session of the history, then those that it was nested in, from the inside out.
func (a *Archive) Line(ctx context.Context, row *Session) (ids []tracer.SessionID, err error) {
	for ids = []tracer.SessionID{row.ID}; row != nil && row.Parent != 0 && len(ids) < registry.MaxDepth; {
		ids = append(ids, row.Parent)
		if row, err = a.r.Journal.Session(ctx, row.Boot, row.Parent); err != nil {
			return ids, err
		}
	}
	return ids, nil
}

func (p *Past) Document() *api.Session {
	p.doc.Head = api.NewHead("session")
	return &p.doc
}

// Report is the receipt of a session that only the history has, as c may read it.
func (a *Archive) Report(ctx context.Context, word string, c access.Caller, v access.Verb,
	missing error) (*api.Report, error) {
	p, err := a.Find(ctx, word, c, v, missing)
	if err != nil {
		return nil, err
	}
	return p.report(c)
}

func (p *Past) report(c access.Caller) (*api.Report, error) {
	var r api.Report
	if err := json.Unmarshal(p.Report, &r); err != nil {
		return nil, fmt.Errorf("read receipt of session %s of the history: %w", p.Word, err)
	}
	r.Head = api.NewHead("report")
	return document.ReadableReport(&r, p.UID, c), nil
}

// ReceiptOf is the receipt of a session of a boot, as c may read it; nil: the history does not have the session. It has
// no verdict before the end of the session is written.
func (a *Archive) ReceiptOf(ctx context.Context, boot, word string, c access.Caller) (*api.Report, error) {
	rows, err := a.r.Journal.Find(ctx, word)
	for i := range rows {
		switch row := &rows[i]; {
		case row.Boot != boot || row.Word != word:
		case row.Ended.IsZero():
			return &api.Report{Head: api.NewHead("report"), Session: word, Processes: []api.Outcome{}}, nil
		default:
			return (&Past{Session: *row}).report(c)
		}
	}
	return nil, err
}

// After is the receipt that was written first after that of a number, as c may read it, and its number. nil: that
// was the last one, or if the number is another one, it cannot be read.
func (a *Archive) After(ctx context.Context, number int64, c access.Caller) (*api.Receipt, int64, error) {
	row, number, err := a.r.Journal.After(ctx, number)
	if row == nil || err != nil {
		return nil, number, err
	}
	p, err := decodePast(row, c)
	var report *api.Report
	if err == nil {
		report, err = p.report(c)
	}
	if err != nil { // another version wrote it
		a.r.Log.Error().Err(err).Msg("receipt not read")
		return nil, number, nil
	}
	var root api.Ref // the ids of sessions are random and short; with it they are unique
	if p.doc.Root != nil {
		root = p.doc.Root.Ref
	}
	return &api.Receipt{ID: row.Word + "-" + root.String(), Report: report}, number, nil
}

// Tree is what is recorded of its processes, nested sessions included.
func (a *Archive) Tree(ctx context.Context, p *Past, c access.Caller) (*api.Tree, error) {
	family := []tracer.SessionID{p.ID}
	for i := 0; i < len(family) && len(family) <= registry.MaxEnded; i++ {
		children, err := a.r.Journal.Nested(ctx, p.Boot, family[i])
		if err != nil {
			return nil, err
		}
		for k := range children {
			family = append(family, children[k].ID)
		}
	}
	line, _ := a.Line(ctx, &p.Session) // dead creators may have been in a session around it
	then, err := a.encoder(ctx, p.Zero, p.Boot, append(line, family[1:]...)...)
	if err != nil {
		return nil, err
	}
	d := &api.Tree{Head: api.NewHead("tree"), Session: &p.doc}
	d.Roots, d.Nodes = then.Tree(then.Graph.Tree(true, family...), c)
	return d, nil
}

// encoder makes documents of sessions as they were in their own boot, whose boottime 0 was at zero.
func (a *Archive) encoder(ctx context.Context, zero time.Time, boot string,
	sessions ...tracer.SessionID) (document.Encoder, error) {
	then := document.Encoder{Graph: lineage.New(lineage.Options{}),
		Clock: document.Fixed(zero), Kernel: a.r.Kernel}
	for _, id := range sessions {
		processes, err := a.r.Journal.Processes(ctx, boot, id)
		if err != nil {
			return then, err
		}
		nodes := decodeNodes(processes)
		for i := range nodes {
			then.Graph.Restore(&nodes[i])
		}
	}
	for _, id := range sessions {
		row, err := a.r.Journal.Session(ctx, boot, id)
		if err != nil {
			return then, err
		}
		if row == nil || !row.Ended.IsZero() || boot != a.r.Boot { // what was nested may have ended before
			then.Graph.Forget(id) // all of them are dead, even if their exits were not seen
		}
	}
	return then, nil
}
