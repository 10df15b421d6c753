package ocsf

import (
	"cmp"
	"iter"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
)

// end is the events of an end: its receipt, each process that was alive when it began, and findings.
func (e *Encoder) end(r *follow.Record) iter.Seq[*event] {
	return func(yield func(*event) bool) {
		if !yield(e.receipt(r)) || r.Report == nil {
			return
		}
		for i := range r.Report.Processes {
			if !yield(e.outcome(r, &r.Report.Processes[i])) {
				return
			}
		}
		for _, v := range e.found(r) {
			if !yield(v) {
				return
			}
		}
	}
}

// remediate begins an event of an end.
func (e *Encoder) remediate(r *follow.Record, s severity, uid, code, message string) *event {
	v := newEvent(r, evicted, s, uid, code, message)
	v.CommandUID = follow.DerivedID("end", r.Host.ID, r.Boot, r.Session.ID)
	v.Remediation = &remediation{"end the session, with SIGKILL for what does not exit in the grace period"}
	v.Actor = &actor{AppName: "lineage"}
	if by := cmp.Or(r.Report, &api.Report{}).EndedBy; by != nil {
		v.Actor = &actor{User: e.users.user(by.UID)}
		if by.PID != 0 {
			v.Actor.Process = &process{entity: entity{PID: by.PID, Name: by.Comm}, User: v.Actor.User}
		}
	}
	return v
}

type receipt struct {
	Reason    string   `json:"reason,omitempty"`      // why the session ended
	Verdict   string   `json:"verdict"`               // what the end came to
	Why       string   `json:"verdict_why,omitempty"` // the reason for the verdict
	Confirmed bool     `json:"confirmed_empty"`       // the kernel counts no live member, and a scan of its tasks found none
	Processes int      `json:"processes"`             // that were alive when the end began
	Killed    int      `json:"killed"`                // that needed SIGKILL
	Left      int      `json:"left"`                  // that are still alive
	Started   int      `json:"started,omitempty"`     // that ever started
	Exited    int      `json:"exited"`                // that exited before the end
	WouldEnd  []string `json:"would_end,omitempty"`   // the reasons for which the policy would have ended it in mode `enforce`
	Truncated bool     `json:"truncated,omitempty"`   // the receipt names only some processes
	AuditHead string   `json:"audit_head,omitempty"`  // number and hash of the newest record of the audit log before this end's
}

// receipt is the event of the end as a whole. Its process is the root of the session.
func (e *Encoder) receipt(r *follow.Record) *event {
	d := cmp.Or(r.Report, new(api.Report))
	reason := cmp.Or(d.EndReason, r.Session.EndReason)
	result, s := resultOf(d, reason)
	v := e.remediate(r, s, r.ID, "end", endMessage(r, reason))
	v.status = result
	v.Process = &process{entity: entity{UID: v.Metadata.CorrelationUID}}
	if root := r.Session.Root; root != nil {
		v.Process = e.member(v, r, root.Ref, root.Comm, root.Argv)
	}
	if d.DurationMS > 0 {
		v.Duration, v.EndTime = int64(d.DurationMS), v.Time
		v.StartTime = r.Time.Add(-time.Duration(d.DurationMS * float64(time.Millisecond))).UnixMilli()
	}
	v.Metadata.IsTruncated = v.Metadata.IsTruncated || d.Truncated
	v.Unmapped.Lineage.Receipt = &receipt{
		Reason: reason, Verdict: string(cmp.Or(d.Verdict, api.VerdictUnknown)),
		Why: d.VerdictWhy, Confirmed: d.ConfirmedEmpty,
		Processes: len(d.Processes), Killed: d.Killed, Left: d.Left,
		Started: d.Started, Exited: d.Exited,
		WouldEnd: d.WouldEnd, Truncated: d.Truncated, AuditHead: d.AuditHead,
	}
	return v
}

// resultOf is the result of an end in OCSF's words.
func resultOf(d *api.Report, reason string) (status, severity) {
	switch {
	case reason == "released" || reason == "untracked":
		return statusOf(99, capital(reason), "nothing was signalled"), informational
	case d.Verdict == api.VerdictClean && len(d.Processes) == 0:
		return statusOf(3, "Does Not Exist", "no process was alive"), informational
	case d.Verdict == api.VerdictClean:
		return statusOf(1, "Success", "the kernel confirms that no process is left"), informational
	case d.Verdict == api.VerdictLeft:
		return statusOf(4, "Partial", d.VerdictWhy), high
	}
	return statusOf(0, "Unknown", cmp.Or(d.VerdictWhy, "there is no receipt")), medium
}

func statusOf(id int, name, detail string) status {
	return status{StatusID: &id, Status: name, StatusDetail: detail}
}

// outcomes are OCSF's words for how a process of an ended session ended.
var outcomes = map[api.OutcomeKind]struct {
	id           int
	name, detail string
}{
	api.OutcomeSelf:   {1, "Success", "exited on its own"},
	api.OutcomeTerm:   {1, "Success", "ended by SIGTERM"},
	api.OutcomeKill:   {1, "Success", "needed SIGKILL"},
	api.OutcomeKept:   {99, "Kept", "moved to a kept session"},
	api.OutcomeLeft:   {2, "Failure", "is still alive"},
	api.OutcomeBranch: {99, "Branch", "was ended before, with what it started"},
}

func (e *Encoder) outcome(r *follow.Record, o *api.Outcome) *event {
	is, known := outcomes[o.Outcome]
	if !known {
		is.id, is.name = 99, cmp.Or(capital(string(o.Outcome)), "Other")
	}
	s := informational
	if o.Outcome == api.OutcomeLeft {
		s = high
	}
	v := e.remediate(r, s, follow.DerivedID("outcome", r.ID, o.Ref), "outcome", outcomeMessage(r, o))
	detail := is.detail
	if o.Why != "" {
		detail = strings.TrimPrefix(detail+": "+o.Why, ": ")
	}
	v.status = statusOf(is.id, is.name, detail)
	v.Process = e.member(v, r, o.Ref, o.Comm, o.Argv)
	if v.Process.Container == nil {
		v.Process.Container = containerOf(o.Container)
	}
	x := &v.Unmapped.Lineage
	x.Outcome, x.Why, x.Leftover = string(o.Outcome), o.Why, o.Leftover
	if p := r.Known.Process(o.Ref); p != nil {
		x.Creator = creatorOf(r, p)
	}
	return v
}

// evident is a process that a finding names, in short: a finding may name many.
func (e *Encoder) evident(v *event, r *follow.Record, ref api.Ref,
	comm string, argv []string) *process {
	d := e.member(v, r, ref, comm, argv)
	d.Parent, d.Ancestry = nil, nil
	v.cut(&d.CmdLine, maxShortArgs)
	return d
}

// member is a process of the session: as events described it, else as the daemon names it.
func (e *Encoder) member(v *event, r *follow.Record, ref api.Ref, comm string, argv []string) *process {
	if p := r.Known.Process(ref); p != nil {
		return e.process(v, r, p)
	}
	d := &process{entity: entityOf(r, ref)}
	d.Name, d.CmdLine = comm, strings.Join(argv, " ")
	return d
}

func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
