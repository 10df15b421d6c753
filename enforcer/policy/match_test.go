package policy

import (
	"testing"
)

func TestMatch(t *testing.T) {
	uid := uint32(1001)
	f := &Facts{
		Comm: "postgres", Exe: "/usr/lib/postgresql/16/bin/postgres", Argv: []string{"postgres", "-D", "/data"},
		UID: &uid, User: "ci", Cgroup: "/system.slice/db.service",
		Parent: &Facts{Comm: "systemd", Exe: "/usr/lib/systemd/systemd"},
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

func TestBuiltInProtection(t *testing.T) {
	p := parse(t, "protect:\n")
	for exe, want := range map[string]string{
		"/usr/lib/systemd/systemd": "protect.systemd", "/usr/lib/systemd/systemd-journald": "protect.systemd",
		"/usr/sbin/sshd": "protect.sshd", "/usr/bin/dbus-daemon": "protect.dbus-daemon",
		"/usr/bin/dockerd": "protect.dockerd", "/usr/bin/containerd-shim-runc-v2": "protect.containerd",
		"/tmp/usr/sbin/sshd": "", "/usr/sbin/sshd2": "",
	} {
		got := ""
		for _, r := range p.Protected(&Facts{Exe: exe}) {
			got = r.Key
		}
		if got != want {
			t.Errorf("%s: %q, want %q", exe, got, want)
		}
	}
}
