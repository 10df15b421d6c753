//go:build linux

package image

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

const foreign = "the caller is in another PID namespace"

// TestClient: the client in a container asks the daemon on the host, as the user that the
// container runs as.
func TestClient(t *testing.T) {
	s := newShop(t)
	s.Daemon()
	m := stage.NewMarker(t, s.Dir)
	daemonise := s.Copy(stage.Program("daemonise"))
	env := append(m.Env(), "LNGTEST_SECONDS=300")
	theirs := s.Start([]string{"run", "--name", "theirs", "--grace", "0s", "--", daemonise, "stay"}, env)
	mine := s.StartNobody(env, "run", "--name", "mine", "--grace", "0s", "--", daemonise, "stay")
	m.Line("ready", 2)
	pid := s.Session("theirs").Root.PID
	why := fmt.Sprint("why ", pid)

	type request struct {
		uid            int
		flags, command string
		has, not       string
		code           int
		refused        string
	}
	ask := func(t *testing.T, c request) {
		p := s.in(t).client(c.uid, c.flags, c.command)
		if c.refused != "" {
			refused(t, p, c.code, c.refused)
			return
		}
		if out := p.Out.String(); p.Code() != 0 || !strings.Contains(out, c.has) || c.not != "" && strings.Contains(out, c.not) {
			t.Error(p)
		}
	}
	t.Run("asks", func(t *testing.T) {
		for _, c := range []request{
			{command: "ls", has: "theirs"},
			{command: "ls", has: "mine"},
			{uid: stage.Nobody, command: "ls", has: "mine", not: "theirs"},
			{uid: stage.Nobody, command: "tree mine", has: "daemonise"},
			{uid: stage.Nobody, command: "tree theirs", code: 3, refused: "session not found"},
			{uid: stage.Nobody, command: "end --yes theirs", code: 3, refused: "session not found"},
			{command: why, code: 2, refused: foreign},
			{command: "why :1", code: 2, refused: foreign},
			{command: "why /run", code: 2, refused: foreign},
			{command: fmt.Sprint("adopt ", pid), code: 2, refused: foreign},
			{command: "run -- /lineage version", code: 125, refused: foreign},
			{command: "ls --outside", code: 7, refused: "not in the initial PID namespace"},
			{flags: "--pid host", command: why, has: "session theirs"},
			{uid: stage.Nobody, flags: "--pid host", command: why, code: 4, refused: "it belongs to uid 0"},
			{uid: stage.Nobody, flags: "--pid host", command: "run -- /lineage version", has: "level"},
		} {
			t.Run(fmt.Sprintf("%d/%s/%s", c.uid, c.flags, c.command), func(t *testing.T) {
				t.Parallel()
				ask(t, c)
			})
		}
	})
	ask(t, request{uid: stage.Nobody, command: "end --yes mine", has: "clean"})
	mine.Wait()
	if theirs.Exited() {
		t.Error(theirs)
	}
	s.End("theirs")
	theirs.Wait()
	m.MustBeGone()
}
