//go:build linux

package history

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Why answers why for a process that only the history has: one of this boot, because
// the caller's numbers are of this boot. missing is the error if there is none, or none
// that c may read.
func (a *Archive) Why(ctx context.Context, text string, c access.Caller, missing error) (*api.Why, error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return nil, missing
	}
	return a.why(ctx, a.r.Boot, document.ID(ref), c, missing)
}

// Identity finds a process of this boot that only the history has; missing is the error if it has
// no such process either.
func (a *Archive) Identity(ctx context.Context, text string, missing error) (tracer.Identity, error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return tracer.Identity{}, missing
	}
	found, err := a.r.Journal.Process(ctx, a.r.Boot, uint32(ref.PID), uint64(ref.StartNS))
	if a.unread(err) || found == nil {
		return tracer.Identity{}, missing
	}
	return tracer.Identity{PID: found.PID, Start: found.Start}, nil
}

// why answers for a process of a boot; start 0 is the youngest of that PID.
func (a *Archive) why(ctx context.Context, boot string, id tracer.Identity, c access.Caller,
	missing error) (*api.Why, error) {
	j := a.r.Journal
	found, err := j.Process(ctx, boot, id.PID, id.Start)
	var row *Session
	if err == nil && found != nil {
		row, err = j.Session(ctx, boot, found.Session)
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

// Listeners returns the members that listened on a TCP port at a time, the last that began first.
func (a *Archive) Listeners(ctx context.Context, port uint16, at time.Time) []Listener {
	all, err := a.r.Journal.Listeners(ctx, port, at)
	a.unread(err)
	return all
}

// Current reports whether a listener is one of this boot, which memory may know.
func (a *Archive) Current(l *Listener) bool { return l.Boot == a.r.Boot }

// WhyListener answers why for a process that only the history has.
func (a *Archive) WhyListener(ctx context.Context, l *Listener, c access.Caller) (*api.Why, error) {
	return a.why(ctx, l.Boot, l.Process, c, api.NewError(api.CodeNotFound,
		"pid "+document.Ref(l.Process).String()+": no such process", ""))
}
