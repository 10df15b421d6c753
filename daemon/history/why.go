//go:build linux

package history

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/lineage"
)

// Why answers why for a process that only the history has: one of this boot, because
// the caller's numbers are of this boot. missing is the error if there is none, or none
// that c may read.
func (a *Archive) Why(ctx context.Context, text string, c access.Caller, missing error) (*api.Why, error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return nil, missing
	}
	id, j := document.ID(ref), a.r.Journal
	found, err := j.Process(ctx, a.r.Boot, id.PID, id.Start)
	var row *Session
	if err == nil && found != nil {
		row, err = j.Session(ctx, a.r.Boot, found.Session)
	}
	if a.unread(err) || row == nil || row.Ended.IsZero() {
		return nil, missing // do not show part of a live session that memory forgot
	}
	if d := access.Decide(c, access.Read, a.Scope(ctx, row)); !d.Allow {
		return nil, a.access.Refuse(c, access.Read, "process "+document.Ref(id).String(), d)
	}
	p, err := decodePast(row, c)
	if err != nil {
		return nil, err
	}
	// The edges lead to the root of the outermost session it was nested in.
	line, err := a.Line(ctx, row)
	if err != nil {
		return nil, err
	}
	then, err := a.encoder(ctx, row.Zero, row.Boot, line...)
	if err != nil {
		return nil, err
	}
	n, ok := then.Graph.Node(lineage.ID{PID: found.PID, Start: found.Start})
	if !ok {
		return nil, missing // another version wrote it
	}
	d := then.Why(&n, nil, c)
	d.Session = p.Document()
	return &d, nil
}
