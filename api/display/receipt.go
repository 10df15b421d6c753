package display

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
)

// Ended is how many of its members an end has reached. Before the verdict it is the kernel's count,
// and the receipt names only some of the dead.
func Ended(r *api.Report) (ended, members int) {
	members = named(r)
	switch {
	case r.Verdict == "":
		members = max(r.Started-r.Exited, r.Left)
	case r.Truncated:
		members += Unnamed(r)
	}
	return members - r.Left, members
}

// Unnamed is how many of its members a truncated receipt does not name.
func Unnamed(r *api.Report) int { return max(r.Started-r.Exited-named(r), 0) }

func named(r *api.Report) (n int) {
	for i := range r.Processes {
		if !r.Processes[i].Outcome.Moved() {
			n++
		}
	}
	return n
}

// Outcome says how a process ended, and why.
func Outcome(o *api.Outcome) string {
	word := string(o.Outcome)
	switch o.Outcome {
	case api.OutcomeSelf:
		word = "exited"
	case api.OutcomeTerm:
		word = "SIGTERM"
	case api.OutcomeKill:
		word = "SIGKILL"
	}
	switch k := o.Killer; {
	case k == nil:
	case k.Kind == "lineage":
		word = Sender(k, o.Ref)
	case o.Outcome == api.OutcomeSelf:
		word += ": " + Sender(k, o.Ref)
	default: // it died of another signal than ours
		word = Sender(k, o.Ref) + "; sent " + word + " by lineage"
	}
	if o.Why != "" {
		word += ": " + o.Why
	}
	return Text(word)
}

// HoldState is what became of something that an ended session held, in words.
type HoldState string

const (
	Freed     HoldState = "freed"
	TimeWait  HoldState = "in TIME_WAIT"
	Busy      HoldState = "still busy:"
	Released  HoldState = "released"
	StillHeld HoldState = "still held:"
	StillOpen HoldState = "its output is still open in"
	NotKnown  HoldState = "note: not everything could be read:"
)

// Held is something that an ended session held.
type Held struct {
	State HoldState
	Name  string
	By    string    // who has it now, for Busy and StillHeld
	Lock  *api.Lock // that it is, or nil
}

// Bad reports whether another program may fail because of it.
func (h Held) Bad() bool { return h.State == Busy || h.State == StillHeld || h.State == StillOpen }

func (h Held) String() string {
	name := h.Name
	if h.Lock != nil {
		name = Lock(h.Lock)
	}
	switch {
	case h.State == TimeWait:
		return name
	case h.By != "":
		return fmt.Sprintf("%s %s, %s", h.State, name, h.By)
	}
	return fmt.Sprintf("%s %s", h.State, name)
}

// AfterEnd is the state of all that an ended session held; name names a process.
func AfterEnd(r *api.Report, name func(*api.Process) string) (all []Held) {
	ports := func(state HoldState, ports []api.Port) {
		for i := range ports {
			h := Held{State: state, Name: Port(&ports[i])}
			switch state {
			case Busy:
				h.By = by(ports[i].PID)
			case TimeWait:
				h.Name += fmt.Sprintf(" has %s in TIME_WAIT", Count(ports[i].Connections, "connection", "connections"))
			}
			all = append(all, h)
		}
	}
	locks := func(state HoldState, locks []api.Lock) {
		for i := range locks {
			h := Held{State: state, Name: lockName(&locks[i]), Lock: &locks[i]}
			if state == StillHeld {
				h.By = by(locks[i].PID)
			}
			all = append(all, h)
		}
	}
	ports(Freed, r.PortsFreed)
	ports(TimeWait, r.PortsTimeWait)
	ports(Busy, r.PortsBusy)
	locks(Released, r.LocksReleased)
	locks(StillHeld, r.LocksHeld)
	for i := range r.OutputHeldBy {
		all = append(all, Held{State: StillOpen, Name: name(&r.OutputHeldBy[i])})
	}
	for _, s := range r.HoldsUnknown {
		all = append(all, Held{State: NotKnown, Name: Text(s)})
	}
	return all
}

// PortsOf names the ports that a process had when the end began, each after a comma.
func PortsOf(r *api.Report, pid int) (text string) {
	for _, ports := range [][]api.Port{r.PortsFreed, r.PortsTimeWait} {
		for i := range ports {
			if ports[i].PID == pid {
				text += ", " + Port(&ports[i])
			}
		}
	}
	return text
}

func by(pid int) string {
	if pid == 0 {
		return "by an unknown process"
	}
	return fmt.Sprintf("by %d", pid)
}
