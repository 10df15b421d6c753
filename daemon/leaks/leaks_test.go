//go:build linux

package leaks_test

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m)) }

// has sets the host's memory and PIDs.
func has(w *daemontest.Daemon, availableKiB, tasks, pidMax int) {
	w.Helper()
	procfstest.Files(w, string(w.Host.Proc), map[string]string{
		"meminfo":            fmt.Sprintf("MemTotal:  99999999 kB\nMemAvailable: %d kB\nHugePages_Total: 0\n", availableKiB),
		"loadavg":            fmt.Sprintf("0.1 0.2 0.3 1/%d 4711\n", tasks),
		"sys/kernel/pid_max": fmt.Sprintln(pidMax),
	})
}

func nearly(got *float64, want float64) bool {
	return got != nil && math.Abs(*got-want) <= 1e-3*math.Abs(want) // the fake clock ticks
}

// A session that gains two children of 1 MiB a minute, 120 an hour, is reported, with
// the time when the host is out of memory; one that does not grow is not.
func TestLeaks(t *testing.T) {
	w := daemontest.New(t)
	has(w, 1200<<10, 20000, 32768) // 1200 MiB at 120 MiB/h: 10 hours; 12768 PIDs: 106 hours
	leaking := w.Session("user", 40, api.NewSession{Name: "leaking"})
	w.Session("else", 41, api.NewSession{Name: "still"})
	for minute := range 13 {
		w.Look()
		d := daemontest.Get[api.Leaks](w, "user", "/v1/leaks?session=leaking")
		// Its first sample may have been taken with the host's, a minute later.
		if g := d.Items[0].Growth; g.Known && minute < 10 || !g.Known && minute > 10 || g.Known == (g.Why != "") || (g.ProcessesPerHour != nil) != g.Known {
			t.Errorf("after %d minutes: %+v", minute, g)
		}
		w.K.Advance(time.Minute)
		for i := range 2 {
			pid := uint32(1000 + 2*minute + i)
			w.K.Fork(40, pid, "lngtest-leak\x1b[2J")
			w.K.Edit(pid, func(p *kerneltest.Proc) { p.RSS = 1 << 20 })
		}
	}
	w.Look()
	d := daemontest.Get[api.Leaks](w, "root", "/v1/leaks")
	if d.Kind != "leaks" || len(d.Items) != 2 || d.Host == nil || d.Truncated {
		t.Fatalf("%+v", d)
	}
	l := d.Items[0]
	if l.Kind != "leak" || l.Session != leaking.ID || l.Name != "leaking" || l.Processes != 27 || l.RSSBytes != 26<<20+4096 ||
		!nearly(l.Growth.ProcessesPerHour, 120) || !nearly(l.Growth.BytesPerHour, 120<<20) ||
		!nearly(l.HoursToExhaustion, 10) || l.Exhausts != "memory" {
		t.Errorf("%+v, growth %v %v", l, *l.Growth.ProcessesPerHour, *l.Growth.BytesPerHour)
	}
	if len(l.Commands) != 2 || l.Commands[0].Processes != 26 || !nearly(l.Commands[0].Growth.ProcessesPerHour, 120) {
		t.Errorf("commands %+v", l.Commands)
	}
	if s := d.Items[1]; !s.Growth.Known || *s.Growth.ProcessesPerHour != 0 || s.HoursToExhaustion != nil || s.Exhausts != "" {
		t.Errorf("the session that stands still: %+v", s)
	}
	if !nearly(d.Host.Growth.ProcessesPerHour, 120) || !nearly(d.Host.HoursToExhaustion, 10) {
		t.Errorf("host %+v", d.Host)
	}
	// PIDs may be short too.
	has(w, 1200<<10, 32168, 32768)
	d = daemontest.Get[api.Leaks](w, "root", "/v1/leaks?session=leaking")
	if l := d.Items[0]; !nearly(l.HoursToExhaustion, 5) || l.Exhausts != "pids" || d.Host != nil {
		t.Errorf("%+v", l)
	}
}

// Callers that may not read a session, or the host, are not told.
func TestLeaksAccess(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 40, api.NewSession{})
	w.Session("else", 41, api.NewSession{})
	w.Look()
	for who, want := range map[string]int{"root": 2, "reader": 2, "user": 1, "40": 1} {
		d := daemontest.Get[api.Leaks](w, who, "/v1/leaks")
		if len(d.Items) != want || (d.Host != nil) != (want == 2) {
			t.Errorf("%s: %d sessions, host %v", who, len(d.Items), d.Host)
		}
	}
	w.Do("else", "GET", "/v1/leaks?session="+s.ID, nil).Refused(api.CodeNotFound)
	w.Do("else", "GET", "/v1/orphans?session="+s.ID, nil).Refused(api.CodeNotFound)
	w.Do("root", "GET", "/v1/leaks?session=nobody", nil).Refused(api.CodeNotFound)
	w.Do("root", "GET", "/v1/leaks?sesion=x", nil).Refused(api.CodeBadRequest)
	w.Do("root", "GET", "/v1/orphans?sesion=x", nil).Refused(api.CodeBadRequest)
	w.End("root", s.ID)
	w.Do("root", "GET", "/v1/leaks?session="+s.ID, nil).Refused(api.CodeNotFound)
}
