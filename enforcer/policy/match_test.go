package policy

import (
	"strings"
	"testing"
	"time"
)

// proven is what the kernel says of a process whose link is true.
func proven() (file, initial bool) { return true, true }

func TestMatch(t *testing.T) {
	uid := uint32(1001)
	f := &Facts{
		Comm: "postgres", Exe: "/usr/lib/postgresql/16/bin/postgres", Argv: []string{"postgres", "-D", "/data"},
		UID: &uid, User: "ci", Cgroup: "/system.slice/db.service",
		Runs: proven, Parent: &Facts{Comm: "systemd", Exe: "/usr/lib/systemd/systemd", Runs: proven},
	}
	for match, want := range map[string]bool{
		"{comm: postgres}":                                true,
		"{comm: [a, postgres]}":                           true,
		"{comm: postgre}":                                 false,
		"{comm: Postgres}":                                false,
		"{exe: /usr/lib/*}":                               false,
		"{exe: /usr/lib/**}":                              true,
		"{exe: '/usr/lib/postgresql/*/bin/postgres'}":     true,
		"{exe: '/usr/lib/postgresql/?/bin/postgres'}":     false,
		"{exe: '/usr/lib/postgresql/[0-9]?/bin/p*'}":      true,
		"{exe: '/usr/lib/postgresql/[!0-9]?/bin/p*'}":     false,
		"{exe: '/usr/lib/postgresql/16/bin/postgres.*'}":  false,
		"{argv: '^-D$'}":                                  true,
		"{argv: '-D /data'}":                              false,
		"{uid: ci}":                                       true,
		"{uid: 1001}":                                     true,
		"{uid: [root, 0]}":                                false,
		"{cgroup: /system.slice/*.service}":               true,
		"{comm: postgres, uid: root}":                     false,
		"{comm: postgres, parent: {comm: systemd}}":       true,
		"{comm: postgres, parent: {exe: /bin/*}}":         false,
		"{parent: {comm: systemd, parent: {comm: init}}}": false,
	} {
		p := parse(t, "protect: [{name: db, reason: x, match: "+match+"}]")
		rules := p.Protected(f)
		if got := len(rules) == 1 && rules[0].Key == "protect.db"; got != want || len(rules) > 1 {
			t.Errorf("%s: %v, want %v", match, rules, want)
		}
		if rules := p.Protected(&Facts{}); len(rules) != 0 {
			t.Errorf("%s matches what is not known", match)
		}
	}
}

// A path that a process has chosen does not exempt it from an end; an agent rule,
// which exempts nobody, takes the last word there is of a process that has exited.
func TestUnproven(t *testing.T) {
	p := parse(t, `
protect: [{name: x, reason: x, match: {exe: /x}}]
keep:
  - {name: x, reason: x, until: 2099-01-01, match: {exe: /x}}
  - {name: y, reason: y, until: 2099-01-01, match: {exe: /y, parent: {exe: /x}}}
brokers: {shared: [{name: x, match: {exe: /x}}]}
agents: [{name: x, enabled: true, match: {comm: x, exe: /x}}]
`)
	says := func(file, initial bool) func() (bool, bool) { return func() (bool, bool) { return file, initial } }
	for name, tt := range map[string]struct {
		runs          func() (bool, bool)
		exempt, agent bool
		why           string
	}{
		"the file":       {proven, true, true, ""},
		"another file":   {says(false, true), false, false, "does not execute"},
		"a namespace":    {says(true, false), false, true, "user namespace"},
		"both":           {says(false, false), false, false, "does not execute"},
		"nobody can say": {nil, false, true, "exited"},
	} {
		f := &Facts{Comm: "x", Exe: "/x", Runs: tt.runs}
		child := &Facts{Comm: "y", Exe: "/y", Runs: proven, Parent: f}
		now := time.Now()
		for what, got := range map[string]bool{
			"protect": len(p.Protected(f)) > 0, "keep": p.Keeps(f, now) != nil, "shared": p.SharedServer(f) != nil, "keep by the parent": p.Keeps(child, now) != nil,
		} {
			if got != tt.exempt {
				t.Errorf("%s: %s: %v", name, what, got)
			}
		}
		if got := p.Agent(f) != nil; got != tt.agent {
			t.Errorf("%s: agent: %v", name, got)
		}
		if why := f.Unproven(); (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestBuiltInProtection(t *testing.T) {
	p := parse(t, "protect:\n")
	for exe, want := range map[string]string{
		"/usr/lib/systemd/systemd": "protect.systemd", "/usr/lib/systemd/systemd-journald": "protect.systemd",
		"/usr/sbin/sshd": "protect.sshd", "/usr/bin/dbus-daemon": "protect.dbus-daemon",
		"/usr/bin/dockerd": "protect.dockerd", "/usr/bin/containerd-shim-runc-v2": "protect.containerd",
		"/tmp/usr/sbin/sshd": "", "/usr/sbin/sshd2": "",
	} {
		got := ""
		for _, r := range p.Protected(&Facts{Exe: exe, Runs: proven}) {
			got = r.Key
		}
		if got != want {
			t.Errorf("%s: %q, want %q", exe, got, want)
		}
	}
}
