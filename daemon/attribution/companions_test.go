//go:build linux

package attribution_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// Work on weak evidence is in a companion session of its own user, although it is for the same session: no user gets
// rights over another one's processes.
func TestCompanionOfEachUser(t *testing.T) {
	w := newWork(t, enforced)
	w.unseen(func() {
		w.outsider(30, 1, "containerd-shim-runc-v2")
		w.asksDocker(101, 0, "run", "-d", "alpine")
		w.asksDocker(102, 0, "run", "-d", "alpine")
		w.asksDocker(103, 0, "run", "-d", "alpine")
		for pid, uid := range map[uint32]uint32{300: 1000, 301: 1001, 302: 1000} {
			w.outsiderOf(uid, pid, 30, "lngtest-box")
			w.File(pid, "cgroup", "0::/docker/"+strings.Repeat(string(rune('a'+pid-300)), 64)+"\n")
		}
	})
	w.look()
	w.Until(func() bool { return w.in(300) != "" && w.in(301) != "" && w.in(302) != "" })
	if w.in(300) == w.in(301) || w.in(300) != w.in(302) {
		t.Errorf("300 %s 301 %s 302 %s", w.in(300), w.in(301), w.in(302))
	}
	for pid, uid := range map[uint32]int{300: 1000, 301: 1001} {
		var s *api.Session
		w.Until(func() bool {
			answer := w.Do("root", "GET", "/v1/sessions/"+w.in(pid), nil)
			if answer.Status == http.StatusOK {
				s = daemontest.Into[api.Session](answer, http.StatusOK)
			}
			return s != nil
		})
		if s.UID != uid {
			t.Errorf("the session of %d is of uid %d, want %d", pid, s.UID, uid)
		}
	}
	w.Do("else", "POST", "/v1/sessions/"+w.in(300)+"/end", nil).Refused(api.CodeNotFound)
}

// What a kept session asks of a broker is not its work: the session is kept because nobody waits for its end.
func TestKeptClaimsNothing(t *testing.T) {
	w := newWork(t, enforced+"brokers: {end: all}\n")
	w.Fork(100, 150, 1000, "lngtest-cache")
	kept := daemontest.Into[api.Session](w.Keep("user", 150), http.StatusCreated)
	w.outsider(30, 1, "tmux")
	w.File(30, "cmdline", "tmux\x00-L\x00a\x00new\x00-d\x00")
	w.Fork(150, 151, 1000, "tmux")
	w.K.Exec(151, "/usr/bin/tmux", "tmux\x00-L\x00a\x00new-session\x00-d\x00")
	w.K.AllRead()
	w.outsider(300, 30, "lngtest-pane")
	w.outsider(301, 1, "lngtest-cookie", "LINEAGE_SESSION="+kept.ID)
	w.look()
	w.look()
	w.outside(300, 301)
}
