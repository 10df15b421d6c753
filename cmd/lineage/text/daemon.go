package text

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func Daemon(v *api.Version, st *api.Status) *Listing {
	v.Head, st.Head = api.Head{Kind: "version"}, api.Head{Kind: "status"}
	d := &api.DaemonStatus{Head: api.NewHead("daemon_status"), Daemon: v, Status: st}
	return &Listing{Doc: d, Items: []any{d}, Text: func(p *Page) { writeDaemon(p, d) }}
}

func writeDaemon(p *Page, d *api.DaemonStatus) {
	fact := func(name, color, value string) {
		p.column(fmt.Sprintf("%-12s", name), 12, p.paint(color, display.Text(value)))
	}
	v, st := d.Daemon, d.Status
	running := fmt.Sprintf("%s, pid %d", v.Version, v.PID)
	if v.Started != nil {
		running += ", for " + p.since(v.Started)
	}
	if v.Ephemeral {
		running += ", until it is idle"
	}
	fact("daemon", "", running)
	level := fmt.Sprint(st.Level)
	if st.Level > 0 && st.Level < len(Levels) {
		level = fmt.Sprintf("%d of %d: %s", st.Level, len(Levels)-1, Levels[st.Level])
	}
	fact("level", "", level)
	mode := st.Mode
	if st.Breaker.Open {
		mode += "; the circuit breaker is open: lineage policy show"
	}
	fact("mode", "", mode)
	if st.Halt != nil {
		fact("halt", red, display.HaltLine(st.Halt))
	}
	fact("sessions", "", fmt.Sprintf("%d live, %s", st.Sessions, display.Count(st.Live, "process")))
	if c := st.SelfCheck; c != nil {
		verdict, color := checked(p, c)
		fact("self-check", color, verdict)
	}
	if st.AuditHead != "" {
		fact("audit log", "", st.AuditHead)
	}
	if len(st.Degraded) == 0 {
		fact("degraded", green, "no")
	}
	for _, why := range st.Degraded {
		fact("degraded", red, why)
	}
}
