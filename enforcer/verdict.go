//go:build linux

package enforcer

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Result struct {
	Session   tracer.SessionID
	Info      tracer.SessionInfo
	Verdict   api.Verdict
	Why       string // why it is not clean
	Left      []Leftover
	Zombies   []tracer.Process // dead members that their parent has not reaped
	Confirmed bool             // a pass over the task list found no member alive
	Gone      bool             // the kernel no longer has the session
}

// Leftover is a member that is still alive or still being torn down.
type Leftover struct {
	tracer.Process
	Why string
}

// prove returns the verdict of an empty session: clean unless there is a reason against it.
func (e *Enforcer) prove(info tracer.SessionInfo) Result {
	r := Result{Session: info.ID, Info: info, Verdict: api.VerdictUnknown}
	var err error
	r.Left, r.Zombies, err = e.members(info.ID)
	switch {
	case err != nil:
		r.Why = fmt.Sprintf("the task list could not be read: %v", err)
	case len(r.Left) > 0:
		r.Why = fmt.Sprintf("the kernel counts no member, its task list has %d", len(r.Left))
	case info.Live != 0 || info.Dying != 0:
		r.Why = fmt.Sprintf("it is closed, but %d live and %d dying are counted", info.Live, info.Dying)
	case info.Drifted:
		r.Why = "the kernel's count of members had to be corrected: one was lost"
	default:
		r.Confirmed = true
		r.Verdict, r.Why = e.complete(info)
	}
	return r
}

// complete is the verdict of a session without members: clean unless births may have been missed.
func (e *Enforcer) complete(info tracer.SessionInfo) (verdict api.Verdict, why string) {
	e.mu.Lock()
	before := e.baseline[info.ID]
	e.mu.Unlock()
	switch now, err := e.kernel.MissedBirths(); {
	case info.Unentered > 0:
		why = fmt.Sprintf("the kernel side had no room for %d children of members: those that were not found may be alive",
			info.Unentered)
	case err != nil:
		why = fmt.Sprintf("whether births were missed could not be read: %v", err)
	case now > before:
		why = fmt.Sprintf("%d births may have been missed", now-before)
	default:
		return api.VerdictClean, ""
	}
	return api.VerdictUnknown, why
}

// leftovers names the processes that remain when the limit has passed. The session
// stays condemned: the signals are pending.
func (e *Enforcer) leftovers(info tracer.SessionInfo) Result {
	r := Result{Session: info.ID, Info: info, Verdict: api.VerdictLeft}
	var err error
	r.Left, r.Zombies, err = e.members(info.ID)
	switch {
	case err != nil:
		r.Verdict, r.Why = api.VerdictUnknown, fmt.Sprintf("the task list could not be read: %v", err)
	case len(r.Left) == 0:
		r.Verdict = api.VerdictUnknown
		r.Why = fmt.Sprintf("%d live and %d dying are counted, the task list has none", info.Live, info.Dying)
	default:
		r.Why = reasons(r.Left)
	}
	return r
}

func (e *Enforcer) members(id tracer.SessionID) (left []Leftover, zombies []tracer.Process, err error) {
	err = e.kernel.Snapshot(id, func(p *tracer.Process) error {
		if p.Zombie {
			zombies = append(zombies, *p)
		} else {
			left = append(left, Leftover{Process: *p})
		}
		return nil
	})
	for i := range left {
		left[i].Why = e.reason(&left[i].Process)
	}
	return left, zombies, err
}

// reasons sums up why processes are left: "2 state D (io_schedule)".
func reasons(left []Leftover) string {
	count := make(map[string]int)
	var order []string
	for _, l := range left {
		if count[l.Why] == 0 {
			order = append(order, l.Why)
		}
		count[l.Why]++
	}
	parts := make([]string, len(order))
	for i, why := range order {
		parts[i] = fmt.Sprintf("%d %s", count[why], why)
	}
	return strings.Join(parts, ", ")
}
