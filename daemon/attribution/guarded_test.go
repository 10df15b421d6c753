//go:build linux

package attribution_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// TestGuardedBrokered: an ancestor of the daemon, and a process that a protect rule
// names, stay outside even if they have the secret.
func TestGuardedBrokered(t *testing.T) {
	w := newWork(t, enforced)
	w.stranger(300, 1, "lngtest-login", w.token())
	w.stranger(301, 1, "lngtest-sshd", w.token())
	w.Exe(301, "/usr/sbin/sshd")
	w.stranger(302, 1, "lngtest-job", w.token())
	w.Under(300)
	w.look()
	w.Until(func() bool { return w.in(302) == w.s.ID })
	if w.in(300) != "" || w.in(301) != "" {
		t.Errorf("300 is in %q, 301 in %q", w.in(300), w.in(301))
	}
}

// TestTokenOfAnotherSession: the secret decides to which session the work belongs.
func TestTokenOfAnotherSession(t *testing.T) {
	w := newWork(t, enforced)
	second := w.Session("user", 200, api.NewSession{Name: "second"})
	w.stranger(300, 1, "lngtest-job", "LINEAGE_TOKEN="+second.Token)
	w.look()
	w.Until(func() bool { return w.in(300) != "" })
	if got := w.in(300); got != second.ID {
		t.Errorf("it is in %s, want %s", got, second.ID)
	}
}
