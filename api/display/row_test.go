package display

import (
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

// Many processes of which the same is said share a row. Rows that are too many are counted, but those that are left have one each.
func TestRows(t *testing.T) {
	for _, tt := range []struct {
		processes int
		comm      string
		exact     bool
		want      string
	}{
		{4, "sleep", false, "6 7 8 9 99"},
		{8, "sleep", false, "×4 ×4 99"},
		{8, "sleep", true, "6@1 7@1 8@1 9@1 10@1 11@1 12@1 13@1 99@1"},
		{600, "w%d", false, "6 7 8 9 99; … 298 more: SIGKILL; … 298 more: SIGTERM; zombies, to be reaped by 4 x: ×600"},
	} {
		r := &api.Report{}
		for pid := 6; pid < 6+tt.processes; pid++ {
			o := api.Outcome{Ref: api.Ref{PID: pid, StartNS: 1}, Comm: tt.comm, Outcome: []api.OutcomeKind{api.OutcomeTerm, api.OutcomeKill}[pid%2]}
			if tt.processes == 600 {
				o.Comm = fmt.Sprintf(tt.comm, pid)
				r.Zombies = append(r.Zombies, api.Zombie{Ref: o.Ref, Reaper: &api.Process{Ref: api.Ref{PID: 4}, Comm: "x"}})
			}
			r.Processes = append(r.Processes, o)
		}
		r.Processes = append(r.Processes, api.Outcome{Ref: api.Ref{PID: 99, StartNS: 1}, Outcome: api.OutcomeLeft})
		n := Names{Exact: tt.exact, Most: 4, Command: func(p *api.Process) string { return p.Comm }}
		if tt.exact {
			n.Most = 0
		}
		words, got := Receipted(r, n), ""
		for _, row := range words.Rows {
			got += " " + row.PID
		}
		for _, note := range words.Notes {
			got += "; " + note.Text
		}
		require.Equal(t, got, " "+tt.want)
	}
}
