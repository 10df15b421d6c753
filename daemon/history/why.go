//go:build linux

package history

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Why answers why of a process that only the history has: one of this boot,
// whose numbers mean what the caller means. missing is what is said if there is
// none, or none that c may read.
func (a *Archive) Why(ctx context.Context, text string, c access.Caller, missing error) (*api.Why, error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return nil, missing
	}
	j := a.journal
	found, err := j.Process(ctx, a.boot, uint32(ref.PID), uint64(ref.StartNS))
	var row *journal.Session
	if err == nil && found != nil {
		row, err = j.Session(ctx, a.boot, found.Session)
	}
	if err != nil {
		a.log.Error().Err(err).Msg("history not read") // the status says why
	}
	if row == nil || row.Ended.IsZero() {
		return nil, missing // what memory forgot of a live session is not told by halves
	}
	if d := access.Decide(c, access.Read, a.Scope(ctx, row)); !d.Allow {
		return nil, a.access.Refuse(c, access.Read, "process "+text, d)
	}
	p, err := decodePast(row, c)
	if err != nil {
		return nil, err
	}
	// The edges lead to the root of the outermost session it was nested in.
	line := []tracer.SessionID{row.ID}
	for up := row; up != nil && up.Parent != 0 && len(line) < registry.MaxDepth; {
		line = append(line, up.Parent)
		if up, err = j.Session(ctx, row.Boot, up.Parent); err != nil {
			return nil, err
		}
	}
	then, err := a.encoder(ctx, row.Zero, row.Boot, line...)
	if err != nil {
		return nil, err
	}
	id := lineage.ID{PID: found.PID, Start: found.Start}
	n, ok := then.Graph.Node(id)
	if !ok {
		return nil, missing // another version wrote it
	}
	d := then.Why(&n, nil, c)
	d.Session = p.Document()
	return &d, nil
}
