package display

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// Plan is what an end would do to processes, and what they hold.
func Plan(p *api.Plan, n Names) ([]Row, []Note) {
	rows := make([]Row, len(p.Processes))
	held, holders := []string{}, map[string][]string{}
	for i := range p.Processes {
		pr := &p.Processes[i]
		said := Said{How: Text(pr.Why), alone: !pr.Killable}
		switch {
		case !pr.Killable:
			said.Tone, said.How = Bad, said.How+"; could not be killed: "+Text(pr.Reason)
		case pr.Reason != "":
			said.Tone, said.How = Warn, said.How+"; "+Text(pr.Reason)
		}
		for _, what := range Holding(pr.Ports, pr.Locks) {
			if holders[what] == nil {
				held = append(held, what)
			}
			holders[what] = append(holders[what], n.PID(pr.Ref))
			said.holds += what + "\n"
		}
		rows[i] = n.row(&pr.Process, said)
	}
	rows, notes := n.together(rows)
	for _, what := range held {
		verb, by := " hold ", holders[what]
		if len(by) == 1 {
			verb = " holds "
		} else if len(by) > Equal && !n.Exact {
			by = []string{by[0], fmt.Sprintf("and %d more", len(by)-1)}
		}
		notes = append(notes, Note{Tone: Faint, Text: strings.Join(by, " ") + verb + what})
	}
	if p.Ambiguous > 0 {
		notes = append(notes, Note{Text: Ambiguous(p)})
	}
	return rows, append(notes, unknown(p.Unknown)...)
}

// Ambiguous says what the end of a call leaves alone; "" if that is nothing.
func Ambiguous(p *api.Plan) string {
	if p.Ambiguous == 0 {
		return ""
	}
	return Count(p.Ambiguous, "more process") +
		" may be of this call, or of another one that was open at the same time: not ended"
}

// Live are rows of processes.
func Live(processes []*api.Process, n Names) ([]Row, []Note) {
	rows := make([]Row, len(processes))
	for i, p := range processes {
		rows[i] = n.row(p, Said{})
	}
	return n.together(rows)
}

// Holding describes held ports and locks, one text for each.
func Holding(ports []api.Port, locks []api.Lock) (all []string) {
	for i := range ports {
		all = append(all, Port(&ports[i]))
	}
	for i := range locks {
		all = append(all, Lock(&locks[i]))
	}
	return all
}
