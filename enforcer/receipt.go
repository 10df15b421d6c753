//go:build linux

package enforcer

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// maxOutcomes bounds the processes that a receipt names.
	maxOutcomes = 4096
	// maxText bounds their command lines together, in bytes. What does not fit is left out:
	// members could fill the history with them.
	maxText = 1 << 20
)

// Receipt collects how the members of one session die. It is not safe for
// concurrent use.
type Receipt struct {
	outcomes  []api.Outcome
	text      int // of their command lines
	ended     int // died after the end began
	killed    int
	truncated bool
}

// Death is one exit event of a member, with what is known about it.
type Death struct {
	ID       tracer.Identity
	Comm     string
	Argv     []string
	Flags    tracer.EntryFlags
	Leftover bool // its session's root exited before it
}

// Died adds a member that died after the end began, or of lineage's signals. The
// outcome comes from the kernel's own note of what it sent.
func (r *Receipt) Died(d Death) {
	outcome := api.OutcomeSelf
	switch {
	case d.Flags&tracer.FlagKilled != 0:
		outcome = api.OutcomeKill
		r.killed++
	case d.Flags&tracer.FlagTermed != 0:
		outcome = api.OutcomeTerm
	}
	r.ended++
	if len(r.outcomes) == maxOutcomes {
		r.truncated = true
		return
	}
	if size := textSize(d.Argv); r.text+size > maxText {
		d.Argv = nil
	} else {
		r.text += size
	}
	r.outcomes = append(r.outcomes, api.Outcome{
		Ref: ref(d.ID), Comm: d.Comm, Argv: d.Argv, Outcome: outcome, Leftover: d.Leftover,
	})
}

func textSize(argv []string) (n int) {
	for _, arg := range argv {
		n += len(arg) + len(`"",`)
	}
	return n
}

// Report is the receipt so far; with a result it has a verdict. The caller fills in
// name, state, caller and the argv of what is left.
func (r *Receipt) Report(info tracer.SessionInfo, took time.Duration, res *Result) *api.Report {
	rep := &api.Report{
		Head:       api.NewHead("report"),
		Session:    info.ID.String(),
		Name:       info.Name,
		State:      api.SessionState(info.State.String()),
		EndReason:  info.Cause.String(),
		DurationMS: float64(took) / float64(time.Millisecond),
		Processes:  append([]api.Outcome{}, r.outcomes...),
		Started:    int(info.Forks) + 1, // the root was entered, not forked
		Killed:     r.killed,
		Truncated:  r.truncated,
	}
	if res == nil {
		rep.Exited = max(rep.Started-int(info.Live)-r.ended, 0)
		return rep
	}
	rep.Verdict, rep.VerdictWhy = res.Verdict, res.Why
	rep.ConfirmedEmpty = res.Confirmed
	rep.Left = len(res.Left)
	rep.Exited = max(rep.Started-rep.Left-r.ended, 0)
	for i := range res.Left {
		l := &res.Left[i]
		rep.Processes = append(rep.Processes, api.Outcome{
			Ref: ref(l.Identity), Comm: l.Comm.String(), Outcome: api.OutcomeLeft, Why: l.Why,
			Leftover: l.Flags&tracer.FlagRoot == 0,
		})
	}
	for i := range res.Zombies {
		z := &res.Zombies[i]
		rep.Zombies = append(rep.Zombies, api.Zombie{
			Ref: ref(z.Identity), Comm: z.Comm.String(), Reaper: &api.Process{Ref: ref(z.Parent)},
		})
	}
	return rep
}

// ref is an identity on the wire.
func ref(id tracer.Identity) api.Ref {
	return api.Ref{PID: int(id.PID), StartNS: api.U64(id.Start)}
}

// Booked is the content of a receipt, for a new daemon that continues it.
type Booked struct {
	Outcomes  []api.Outcome `json:"outcomes,omitempty"`
	Ended     int           `json:"ended,omitempty"`
	Killed    int           `json:"killed,omitempty"`
	Truncated bool          `json:"truncated,omitempty"`
}

// Booked returns the content so far. Its outcomes are not changed later.
func (r *Receipt) Booked() Booked {
	return Booked{Outcomes: r.outcomes[:len(r.outcomes):len(r.outcomes)], Ended: r.ended, Killed: r.killed, Truncated: r.truncated}
}

// Resume returns a receipt that continues from b.
func Resume(b Booked) Receipt {
	n := min(len(b.Outcomes), maxOutcomes)
	text := 0
	for i := range b.Outcomes[:n] {
		text += textSize(b.Outcomes[i].Argv)
	}
	return Receipt{outcomes: append([]api.Outcome{}, b.Outcomes[:n]...), text: text, ended: b.Ended, killed: b.Killed, truncated: b.Truncated || n < len(b.Outcomes)}
}
