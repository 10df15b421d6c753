package daemon

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// What a recording cannot answer, and what nobody can do to one.

func (r *Replay) denied(what string) error {
	return api.NewError(api.CodeDenied, what+": not permitted: this is a recording", "")
}

// Create is refused.
func (r *Replay) Create(context.Context, api.NewSession) (*api.Session, error) {
	return nil, r.denied("create")
}

// Keep is refused.
func (r *Replay) Keep(context.Context, api.KeepRequest) (*api.Session, error) {
	return nil, r.denied("keep")
}

// Plan is refused: there is nobody to end.
func (r *Replay) Plan(_ context.Context, s string) (*api.Plan, error) {
	return nil, r.denied("plan " + s)
}

// End is refused.
func (r *Replay) End(_ context.Context, s string, _ api.EndRequest) (*api.Report, error) {
	return nil, r.denied("end " + s)
}

// Kill is refused.
func (r *Replay) Kill(_ context.Context, ref string, _ api.KillRequest) (*api.Killed, error) {
	return nil, r.denied("kill " + ref)
}

// Report is refused: receipts are no part of a recording.
func (r *Replay) Report(_ context.Context, s string, _ time.Duration) (*api.Report, error) {
	return nil, r.denied("report " + s)
}

// Orphans is refused: a recording says who was an orphan in its tree.
func (r *Replay) Orphans(context.Context, string) (*api.Orphans, error) {
	return nil, r.denied("orphans")
}

// Leaks is refused.
func (r *Replay) Leaks(context.Context, string) (*api.Leaks, error) { return nil, r.denied("report") }

// WhyPort is refused: ports are no part of a recording.
func (r *Replay) WhyPort(context.Context, string, int) (*api.Holders, error) {
	return nil, r.denied("why")
}

// WhyPath is refused: files are no part of a recording.
func (r *Replay) WhyPath(context.Context, api.PathRef) (*api.Holders, error) {
	return nil, r.denied("why")
}

// Events is refused: the file itself is what there is to read.
func (r *Replay) Events(context.Context, api.EventsQuery, func(*api.Event) error) error {
	return r.denied("events")
}

// History is refused.
func (r *Replay) History(context.Context, api.HistoryQuery) (*api.Sessions, error) {
	return nil, r.denied("history")
}

// Policy is refused.
func (r *Replay) Policy(context.Context) (*api.Policy, error) { return nil, r.denied("policy") }

// PolicyExplain is refused.
func (r *Replay) PolicyExplain(context.Context, string) (*api.PolicyExplain, error) {
	return nil, r.denied("policy")
}

// PolicyReload is refused.
func (r *Replay) PolicyReload(context.Context) (*api.Policy, error) { return nil, r.denied("policy") }

// PolicyResume is refused.
func (r *Replay) PolicyResume(context.Context) (*api.Policy, error) { return nil, r.denied("policy") }

// Stop is refused.
func (r *Replay) Stop(context.Context, bool, bool) error { return r.denied("stop") }
