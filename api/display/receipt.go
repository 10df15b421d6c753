package display

import (
	"cmp"
	"fmt"
	"strings"
	"time"

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

// Receipt is the receipt of an end in words.
type Receipt struct {
	Verdict, Sum string // "ended, clean", and "3 processes in 12ms"
	Rows         []Row  // how each process ended
	Notes        []Note // everything else
}

func (r *Receipt) String() string { return r.Verdict + ": " + r.Sum }

// Receipted puts a receipt into words.
func Receipted(r *api.Report, n Names) (words Receipt) {
	words.Verdict, words.Sum = verdict(r)
	words.Rows, words.Notes = Outcomes(r.Processes, n)
	note := func(when bool, text string) {
		if when {
			words.Notes = append(words.Notes, Note{Text: text})
		}
	}
	death := Death(r.Root)
	note(death != "", death)
	reapers, zombies := []string{}, map[string][]string{}
	for i := range r.Zombies {
		z, reaper := &r.Zombies[i], "its parent"
		if z.Reaper != nil {
			reaper = n.process(z.Reaper)
		}
		if zombies[reaper] == nil {
			reapers = append(reapers, reaper)
		}
		zombies[reaper] = append(zombies[reaper], n.PID(z.Ref)+" "+Text(cmp.Or(z.Comm, "?")))
	}
	for _, reaper := range reapers {
		of := zombies[reaper]
		if len(of) > Equal && !n.Exact {
			of = []string{fmt.Sprintf("×%d", len(of))}
		}
		note(true, fmt.Sprintf("zombies, to be reaped by %s: %s", reaper, strings.Join(of, ", ")))
	}
	used := Account(r.Limits, r.Account)
	note(used != "", used)
	for _, call := range Some(r.Calls, mostCalls, func(c *api.Call) string { return Call(c) + Used(c) }) {
		note(true, "tool call "+call)
	}
	note(r.Truncated, fmt.Sprintf("… %d more processes ended; the daemon kept no details of them", Unnamed(r)))
	note(len(r.WouldEnd) > 0, "the policy would have ended it: "+Text(strings.Join(r.WouldEnd, ", ")))
	words.Notes = append(words.Notes, AfterEnd(r, &n)...)
	for i := range r.Delegated {
		note(true, Delegated(&r.Delegated[i], r.Session))
	}
	return words
}

// Verdict is the receipt on one line, without processes.
func Verdict(r *api.Report) string {
	verdict, sum := verdict(r)
	return verdict + ": " + sum
}

func verdict(r *api.Report) (verdict, sum string) {
	ended, members := Ended(r)
	all, took := Count(members, "process"), Duration(time.Duration(r.DurationMS*float64(time.Millisecond)))
	verdict = "ended, " + Text(r.Verdict)
	switch {
	case r.Verdict == "" && r.State == api.StateActive:
		return "no verdict", "the session has not ended"
	case r.Verdict == "":
		return "still ending", fmt.Sprintf("%d of %s dead after %s", ended, all, took)
	case r.State == api.StateActive && r.Verdict == api.VerdictLeft: // run --on-exit report
		return "nothing was ended", fmt.Sprintf("the session continues with %s",
			Count(r.Left, "process"))
	case r.Verdict == api.VerdictUnknown:
		return verdict, "no proof that nothing is left: " +
			Text(cmp.Or(r.VerdictWhy, "the daemon does not say why"))
	case r.Verdict != api.VerdictClean:
		sum = fmt.Sprintf("%d of %s in %s", ended, all, took)
	case members == 0:
		sum = "no process was left over"
	default:
		sum = all + " in " + took
	}
	if r.VerdictWhy != "" {
		sum += "; " + Text(r.VerdictWhy)
	}
	return verdict, sum
}

// Outcomes are rows of how processes ended, and notes on those without a row.
func Outcomes(processes []api.Outcome, n Names) ([]Row, []Note) {
	tones := map[api.OutcomeKind]Tone{api.OutcomeSelf: Faint,
		api.OutcomeKill: Warn, api.OutcomeLeft: Bad}
	rows := make([]Row, len(processes))
	for i := range processes {
		o := &processes[i]
		rows[i] = n.row(&api.Process{Ref: o.Ref, Argv: o.Argv, Comm: o.Comm,
			Container: o.Container}, Said{
			Tone: tones[o.Outcome], How: Outcome(o), Leftover: o.Leftover,
			alone: o.Outcome == api.OutcomeLeft,
		})
	}
	return n.together(rows)
}

// Outcome says how a process ended, and why.
func Outcome(o *api.Outcome) string {
	words := map[api.OutcomeKind]string{api.OutcomeSelf: "exited", api.OutcomeTerm: "SIGTERM",
		api.OutcomeKill: "SIGKILL", api.OutcomeLeft: "still alive"}
	word := cmp.Or(words[o.Outcome], string(o.Outcome))
	switch k := o.Killer; {
	case k == nil:
	case k.Kind == "lineage":
		word = Sender(k, o.Ref, "")
	case o.Outcome == api.OutcomeSelf:
		word += ": " + Sender(k, o.Ref, "")
	default: // it died of another signal than ours
		word = Sender(k, o.Ref, "") + "; sent " + word + " by lineage"
	}
	if o.Why != "" {
		word += ": " + o.Why
	}
	return Text(word)
}

// AfterEnd is what became of all that an ended session held; n names who has it now.
func AfterEnd(r *api.Report, n *Names) (notes []Note) {
	ports := func(tone Tone, what string, ports []api.Port) {
		for i := range ports {
			p := &ports[i]
			note := Note{Tone: tone, Text: what + " " + Port(p)}
			switch {
			case tone == Warn:
				note.Text += by(p.PID)
			case what == "":
				note.Text = fmt.Sprintf("%s has %s in TIME_WAIT", Port(p),
					Count(p.Connections, "connection"))
			}
			notes = append(notes, note)
		}
	}
	locks := func(tone Tone, what string, locks []api.Lock) {
		for i := range locks {
			note := Note{Tone: tone, Text: what + " " + Lock(&locks[i]), Lock: &locks[i]}
			if tone == Warn {
				note.Text += by(locks[i].PID)
			}
			notes = append(notes, note)
		}
	}
	ports(Faint, "freed", r.PortsFreed)
	ports(Plain, "", r.PortsTimeWait)
	ports(Warn, "still busy:", r.PortsBusy)
	locks(Faint, "released", r.LocksReleased)
	locks(Warn, "still held:", r.LocksHeld)
	for i := range r.OutputHeldBy {
		notes = append(notes, Note{Tone: Warn,
			Text: "its output is still open in " + n.process(&r.OutputHeldBy[i])})
	}
	return append(notes, unknown(r.HoldsUnknown)...)
}

// unknown says what could not be read of what processes hold.
func unknown(what []string) (notes []Note) {
	for _, s := range what {
		notes = append(notes, Note{Text: "note: not everything could be read: " + Text(s)})
	}
	return notes
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
		return ", by an unknown process"
	}
	return fmt.Sprintf(", by %d", pid)
}
