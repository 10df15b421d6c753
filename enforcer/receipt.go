//go:build linux

package enforcer

import (
	"time"
	"unsafe"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// maxOutcomes bounds the processes that a receipt names. At most maxSelf were not ended: a process that forks and
	// exits without pause leaves room for those that are ended.
	maxOutcomes = 4096
	maxSelf     = maxOutcomes / 2
	// maxText bounds the memory of their command lines together, in bytes. What does not fit is
	// left out: members could fill the history with them.
	maxText = 1 << 20
)

// outcomeSize is the memory of an outcome without its command line.
const outcomeSize = int(unsafe.Sizeof(api.Outcome{}))

// Receipt collects how the members of one session die. It is not safe for
// concurrent use.
type Receipt struct {
	outcomes  []api.Outcome
	text      int // bytes of their command lines
	self      int // exited on their own, or were moved before
	ended     int // died after the end began
	members   int // when it began, as far as was seen
	killed    int
	truncated bool

	LeftOver bool // the members are leftovers: their root was gone before the end began
}

// Died adds a member that died after the end began, or of lineage's signals. The
// outcome comes from flags, the kernel's own note of what it sent. take is asked for the bytes that the
// receipt then takes more: if they are not there, the command line is left out, or the process.
func (r *Receipt) Died(o api.Outcome, flags tracer.EntryFlags, take func(bytes int) bool) {
	o.Outcome = api.OutcomeSelf
	switch {
	case flags&tracer.FlagKilled != 0:
		o.Outcome = api.OutcomeKill
		r.killed++
	case flags&tracer.FlagTermed != 0:
		o.Outcome = api.OutcomeTerm
	}
	r.ended++
	r.Add(o, take)
}

func (r *Receipt) Add(o api.Outcome, take func(bytes int) bool) {
	if len(r.outcomes) == maxOutcomes || !ended(o.Outcome) && r.self == maxSelf {
		r.truncated = true
		return
	}
	size := textSize(&o)
	if r.text+size > maxText || !take(outcomeSize+size) {
		if o.Argv, o.Killer, o.Why, size = nil, nil, "", 0; !take(outcomeSize) {
			r.truncated = true
			return
		}
	}
	r.text += size
	if !ended(o.Outcome) {
		r.self++
	}
	r.outcomes = append(r.outcomes, o)
}

func ended(k api.OutcomeKind) bool { return k == api.OutcomeTerm || k == api.OutcomeKill }

// Ending notes how many members live while the end runs. Their deaths are added later than the
// kernel counts them.
func (r *Receipt) Ending(live int) { r.members = max(r.members, live+r.ended) }

func (r *Receipt) Size() int { return len(r.outcomes)*outcomeSize + r.text }

// textSize is how many bytes of memory an outcome takes besides outcomeSize.
func textSize(o *api.Outcome) int {
	return memory.ArgvSize(o.Argv) + containerSize(o.Container) + senderSize(o.Killer) + len(o.Why)
}

func senderSize(s *api.Sender) int {
	switch {
	case s == nil:
		return 0
	case s.Process == nil:
		return int(unsafe.Sizeof(*s))
	}
	return int(unsafe.Sizeof(*s)+unsafe.Sizeof(*s.Process)) + len(s.Process.Comm) + len(s.Process.Session)
}

func containerSize(c *api.Container) int {
	if c == nil {
		return 0
	}
	return int(unsafe.Sizeof(*c)) + len(c.ID) + len(c.Name) + len(c.Image) + len(c.Pod) + len(c.Namespace)
}

// ReportSize is how many bytes of memory a report takes, of what members can make long.
func ReportSize(r *api.Report) int {
	const process = int(unsafe.Sizeof(api.Process{}))
	n := len(r.Processes)*outcomeSize + len(r.Zombies)*(int(unsafe.Sizeof(api.Zombie{}))+process) +
		len(r.OutputHeldBy)*process + memory.ArgvSize(r.HoldsUnknown) +
		len(r.Calls)*(int(unsafe.Sizeof(api.Call{}))+512) // and their texts, at most
	if d := r.Root; d != nil {
		n += process + senderSize(d.Killer)
		if d.After != nil {
			n += process + senderSize(d.After.Killer)
		}
	}
	for i := range r.Processes {
		n += textSize(&r.Processes[i])
	}
	for i := range r.Delegated {
		n += int(unsafe.Sizeof(r.Delegated[i])) + 2*process
		if asked := r.Delegated[i].Asked; asked != nil {
			n += memory.ArgvSize(asked.Argv)
		}
	}
	for _, ports := range [][]api.Port{r.PortsFreed, r.PortsBusy, r.PortsTimeWait} {
		for i := range ports {
			n += int(unsafe.Sizeof(api.Port{})) + len(ports[i].Addr)
		}
	}
	for _, locks := range [][]api.Lock{r.LocksReleased, r.LocksHeld} {
		for i := range locks {
			n += int(unsafe.Sizeof(api.Lock{})) + len(locks[i].Path) + 8*len(locks[i].Waiting)
		}
	}
	return n
}

// Report is the receipt so far; with a result it has a verdict. Besides the root and those that
// were forked, joined processes were entered. The caller fills in name, state, caller and the
// argv of what is left.
func (r *Receipt) Report(info tracer.SessionInfo, joined int, took time.Duration, res *Result) *api.Report {
	rep := &api.Report{
		Head:       api.NewHead("report"),
		Session:    info.ID.String(),
		Name:       info.Name,
		State:      api.SessionState(info.State.String()),
		EndReason:  info.Cause.String(),
		DurationMS: float64(took) / float64(time.Millisecond),
		Processes:  append([]api.Outcome{}, r.outcomes...),
		Started:    int(info.Forks) + 1 + joined,
		Killed:     r.killed,
		Truncated:  r.truncated,
	}
	if res == nil {
		rep.Left = max(int(info.Live), 0)
		rep.Exited = max(rep.Started-max(r.members, rep.Left+r.ended), 0)
		return rep
	}
	rep.Verdict, rep.VerdictWhy = res.Verdict, res.Why
	rep.ConfirmedEmpty = res.Confirmed
	if i := res.Info; !res.Gone {
		rep.Counted = &api.Counted{Births: i.Forks, Live: i.Live, Dying: i.Dying,
			Unentered: int(i.Unentered), Corrected: i.Drifted}
	}
	rep.Left = len(res.Left)
	rep.Exited = max(rep.Started-rep.Left-r.ended, 0)
	for i := range res.Left {
		l := &res.Left[i]
		rep.Processes = append(rep.Processes, api.Outcome{
			Ref: ref(l.Identity), Comm: l.Comm.String(), Outcome: api.OutcomeLeft, Why: l.Why,
			Leftover: r.LeftOver && l.Flags&tracer.FlagRoot == 0,
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

func ref(id tracer.Identity) api.Ref {
	return api.Ref{PID: int(id.PID), StartNS: api.U64(id.Start)}
}

// Gap notes that a death may be missing. True: for the first time.
func (r *Receipt) Gap() bool {
	first := !r.truncated
	r.truncated = true
	return first
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
	return Booked{Outcomes: r.outcomes[:len(r.outcomes):len(r.outcomes)], Ended: r.ended,
		Killed: r.killed, Truncated: r.truncated}
}

func Resume(b Booked) Receipt {
	n := min(len(b.Outcomes), maxOutcomes)
	r := Receipt{outcomes: append([]api.Outcome{}, b.Outcomes[:n]...), ended: b.Ended,
		killed: b.Killed, truncated: b.Truncated || n < len(b.Outcomes)}
	for i := range r.outcomes {
		o := &r.outcomes[i]
		r.text += textSize(o)
		if !ended(o.Outcome) {
			r.self++
		}
	}
	return r
}
