//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// nobody is a caller without rights.
const nobody = 65534

// refused runs args and demands the code, one line on stderr and nothing on stdout.
func (i *instance) refused(code int, args ...string) {
	i.t.Helper()
	i.checkRefused(i.lineage(args...), code)
}

// refusedNobody is refused for a caller without rights.
func (i *instance) refusedNobody(code int, args ...string) {
	i.t.Helper()
	i.checkRefused(i.startNobody(nil, args...).wait(), code)
}

// startNobody runs lineage as a caller without rights, from where nobody can
// reach it: the checkout may be in a home that is closed to others.
func (i *instance) startNobody(env []string, args ...string) *process {
	i.t.Helper()
	cmd := i.command(args, env)
	cmd.Path = i.copy(lineage)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return start(i.t, cmd)
}

// copy puts a program where everybody can run it.
func (i *instance) copy(path string) string {
	i.t.Helper()
	to := filepath.Join(i.dir, filepath.Base(path))
	if _, err := os.Stat(to); err == nil {
		return to // it may be running
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return to
}

func (i *instance) checkRefused(p *process, code int) {
	i.t.Helper()
	text := p.stderr.String()
	if p.code() != code || p.stdout.Len() != 0 {
		i.t.Errorf("want exit %d and nothing on stdout: %v", code, p)
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "lineage: ") {
		i.t.Errorf("want one line that starts with lineage: %v", p)
	}
}

// Bad input: one line, the documented code, and nobody is signalled.
func TestHold7BadInput(t *testing.T) {
	i := newDaemon(t)
	m := newMarker(t, i.dir)
	run := i.run(m, []string{"--name", "mine"}, "daemonise", "stay")
	m.ready()
	var pid int
	for pid = range m.members(1) {
	}
	plain := filepath.Join(i.dir, "not-executable")
	if err := os.WriteFile(plain, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		code int
		args []string
	}{
		"unknown session":      {api.ExitNotFound, []string{"end", "--yes", "nosuch"}},
		"unknown tree":         {api.ExitNotFound, []string{"tree", "nosuch"}},
		"PID gone":             {api.ExitNotFound, []string{"why", "4000000"}},
		"another process":      {api.ExitNotFound, []string{"why", fmt.Sprintf("%d@1", pid)}},
		"no PID":               {api.ExitUsage, []string{"why", "-1"}},
		"CMD not found":        {127, []string{"run", "--", "lngtest-no-such-command"}},
		"CMD not executable":   {126, []string{"run", "--", plain}},
		"run: negative grace":  {125, []string{"run", "--grace", "-1s", "--", "true"}},
		"run: no CMD":          {125, []string{"run"}},
		"run: unknown flag":    {125, []string{"run", "--no-such-flag", "--", "true"}},
		"end: negative grace":  {api.ExitUsage, []string{"end", "--grace", "-1s", "--yes", "mine"}},
		"end: no --yes":        {api.ExitUsage, []string{"end", "mine"}},
		"unknown command":      {api.ExitUsage, []string{"no-such-command"}},
		"unknown output":       {api.ExitUsage, []string{"ls", "-o", "no-such-format"}},
		"run: name in use":     {125, []string{"run", "--name", "mine", "--", "true"}},
		"run: name not a name": {125, []string{"run", "--name", "-x y", "--", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := i.in(t)
			i.refused(tt.code, tt.args...)
		})
	}

	t.Run("not permitted", func(t *testing.T) {
		i := i.in(t)
		i.refusedNobody(api.ExitDenied, "end", "--yes", "mine")
	})
	t.Run("ambiguous name", func(t *testing.T) {
		i := i.in(t)
		other := newMarker(t, i.dir)
		theirs := i.startNobody(other.env(), "run", "--name", "mine", "--", i.copy(program("daemonise")), "stay")
		other.ready()
		i.refused(api.ExitUsage, "end", "--yes", "mine")
		for _, s := range query[api.Sessions](i, "ls").Items {
			if s.UID == nobody {
				i.end("--now", s.ID)
			}
		}
		other.mustBeGone()
		theirs.wait()
	})

	if m.drain(); status(pid, "State") == "" {
		t.Error("bad input ended somebody")
	}
	i.end("mine")
	m.mustBeGone()
	run.wait()
}

// What a host may lack, told before anything is started.
func TestHold7BadHost(t *testing.T) {
	t.Run("no daemon", func(t *testing.T) { newInstance(t).refused(api.ExitUnreachable, "ls") })
	t.Run("run without root", func(t *testing.T) { newInstance(t).refusedNobody(125, "run", "--", "true") })
	t.Run("another API", func(t *testing.T) {
		i := newInstance(t)
		l := i.listen()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(api.HeaderVersion, "v99.0.0")
			w.Header().Set(api.HeaderAPI, "99")
			fmt.Fprintln(w, `{"schema":"lineage/99","kind":"version","version":"v99.0.0","api":99}`)
		}))
		i.refused(api.ExitUnreachable, "ls")
		i.refused(125, "run", "--", "true")
		l.Close()
	})
	t.Run("no BTF", func(t *testing.T) {
		i := newInstance(t)
		hidden := func(args ...string) *process {
			cmd := i.command(nil, nil)
			shell := `mount -t tmpfs lngtest /sys/kernel/btf && exec "$@"`
			path, err := exec.LookPath("unshare")
			if err != nil {
				t.Fatal(err)
			}
			cmd.Path = path
			cmd.Args = slices.Concat([]string{"unshare", "--mount", "sh", "-c", shell, "sh", lineage}, args)
			return start(t, cmd).wait()
		}
		if p := hidden("doctor"); p.code() != api.ExitUnsupported || !strings.Contains(p.stdout.String(), "BTF") {
			t.Errorf("doctor: want exit %d and BTF named: %v", api.ExitUnsupported, p)
		}
		i.checkRefused(hidden("run", "--", "true"), 125)
	})
}
