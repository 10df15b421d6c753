//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// past is an ended session that only the history has.
type past struct {
	journal.Session
	doc api.Session
}

// unremembered reports whether err says that memory has no such session, so
// that the history may.
func unremembered(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeNotFound
}

// past finds an ended session in the history, by id, else the newest one of
// that name, those first that c may read. missing is what is said if there is
// none, or no history.
func (s *server) past(ctx context.Context, word string, c access.Caller, v access.Verb, missing error) (*past, error) {
	if !api.IsSessionWord(word) {
		return nil, missing
	}
	rows, err := s.recorder.Journal().Find(ctx, word)
	if err != nil {
		s.log.Error().Err(err).Msg("history not read")
		return nil, missing // the status says why
	}
	var refused *journal.Session
	for i := range rows {
		row := &rows[i]
		if row.Ended.IsZero() {
			continue // memory would have it, were it live
		}
		if !access.Decide(c, access.Read, s.pastScope(ctx, row)).Allow {
			refused = row
			continue
		}
		if d := access.Decide(c, v, s.pastScope(ctx, row)); !d.Allow {
			return nil, s.access.Refuse(c, v, word, d)
		}
		return decodePast(row, c)
	}
	if refused != nil {
		return nil, s.access.Refuse(c, v, word, access.Decide(c, v, s.pastScope(ctx, refused)))
	}
	return nil, missing
}

// decodePast is a row as c may read it.
func decodePast(row *journal.Session, c access.Caller) (*past, error) {
	p := &past{Session: *row}
	if err := json.Unmarshal(row.Doc, &p.doc); err != nil {
		return nil, fmt.Errorf("read session %s of the history: %w", row.Word, err)
	}
	p.show(c)
	return p, nil
}

// pastScope is a session of the history as access sees it. Nobody is a member of
// it any more, so it is not in its own chain: its id may be that of another one
// now.
func (s *server) pastScope(ctx context.Context, row *journal.Session) access.Scope {
	scope := access.Scope{UID: row.UID}
	if row.Boot != s.bootID {
		return scope
	}
	scope.Chain = []tracer.SessionID{0}
	for row.Parent != 0 && len(scope.Chain) < registry.MaxDepth {
		scope.Chain = append(scope.Chain, row.Parent)
		up, err := s.recorder.Journal().Session(ctx, row.Boot, row.Parent)
		if err != nil || up == nil {
			break
		}
		row = up
	}
	return scope
}

// show leaves out what c may not know.
func (p *past) show(c access.Caller) {
	if r := p.doc.Root; r != nil && (r.UID == nil || !c.MayReadArgv(uint32(*r.UID))) {
		r.Argv = nil
	}
	p.doc.Brokered = document.ReadableBrokered(p.doc.Brokered, c)
	p.doc.Token = ""
}

func (p *past) session() *api.Session {
	p.doc.Head = head("session")
	return &p.doc
}

// report is the receipt as c may read it.
func (p *past) report(c access.Caller) (*api.Report, error) {
	var r api.Report
	if err := json.Unmarshal(p.Report, &r); err != nil {
		return nil, fmt.Errorf("read receipt of session %s of the history: %w", p.Word, err)
	}
	r.Head = head("report")
	return document.ReadableReport(&r, p.UID, c), nil
}

// pastReport is the receipt of a session that only the history has.
func (s *server) pastReport(ctx context.Context, word string, c access.Caller, v access.Verb, missing error) (*api.Report, error) {
	p, err := s.past(ctx, word, c, v, missing)
	if err != nil {
		return nil, err
	}
	return p.report(c)
}

// pastTree is what is remembered of its processes, nested sessions included.
func (s *server) pastTree(ctx context.Context, p *past, at tracer.Identity, c access.Caller) (*api.Tree, error) {
	family := []tracer.SessionID{p.ID}
	for i := 0; i < len(family) && len(family) <= registry.MaxEnded; i++ {
		children, err := s.recorder.Journal().Nested(ctx, p.Boot, family[i])
		if err != nil {
			return nil, err
		}
		for k := range children {
			family = append(family, children[k].ID)
		}
	}
	then, err := s.archived(ctx, p.Zero, p.Boot, family...)
	if err != nil {
		return nil, err
	}
	rows := then.Graph.Tree(true, family...)
	if !at.IsZero() {
		if rows = document.Subtree(rows, at); len(rows) == 0 {
			return nil, notIn(at, p.Word)
		}
	}
	d := &api.Tree{Head: head("tree"), Session: &p.doc}
	d.Roots, d.Nodes = then.Tree(rows, c)
	return d, nil
}

// archived makes documents of sessions as they were in their own boot, whose boottime 0
// was at zero.
func (s *server) archived(ctx context.Context, zero time.Time, boot string, sessions ...tracer.SessionID) (document.Encoder, error) {
	then := document.Encoder{Graph: lineage.New(lineage.Options{}), Clock: document.Fixed(zero), Kernel: s.kernel}
	for _, id := range sessions {
		processes, err := s.recorder.Journal().Processes(ctx, boot, id)
		if err != nil {
			return then, err
		}
		nodes := history.DecodeNodes(processes)
		for i := range nodes {
			then.Graph.Restore(&nodes[i])
		}
	}
	for _, id := range sessions {
		then.Graph.Forget(id) // all of them are dead, whoever's end was not seen
	}
	return then, nil
}
