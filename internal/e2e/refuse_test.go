//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// refused runs args and demands the code, one line on stderr and nothing on stdout.
func refused(i *stage.Instance, code int, args ...string) {
	i.T.Helper()
	checkRefused(i, i.Lineage(args...), code)
}

// refusedNobody is refused for a caller without rights.
func refusedNobody(i *stage.Instance, code int, args ...string) {
	i.T.Helper()
	checkRefused(i, i.StartNobody(nil, args...).Wait(), code)
}

func checkRefused(i *stage.Instance, p *stage.Process, code int) {
	i.T.Helper()
	text := p.Err.String()
	if p.Code() != code || p.Out.Len() != 0 {
		i.T.Errorf("want exit %d and nothing on stdout: %v", code, p)
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "lineage: ") {
		i.T.Errorf("want one line that starts with lineage: %v", p)
	}
}

// Bad input: one line, the documented code, and no process is signalled.
func TestHold7BadInput(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	run := i.Run(m, []string{"--name", "mine"}, "daemonise", "stay")
	m.Ready()
	var pid int
	for pid = range m.Members(1) {
	}
	plain := filepath.Join(i.Dir, "not-executable")
	require.NoError(t, os.WriteFile(plain, []byte("data"), 0o644))

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
			i := i.In(t)
			refused(i, tt.code, tt.args...)
		})
	}

	t.Run("not permitted, so not found", func(t *testing.T) {
		i := i.In(t)
		refusedNobody(i, api.ExitNotFound, "end", "--yes", "mine")
	})
	t.Run("another user's name", func(t *testing.T) {
		i := i.In(t)
		other := stage.NewMarker(t, i.Dir)
		theirs := i.StartNobody(other.Env(), "run", "--name", "mine", "--", i.Copy(stage.Program("daemonise")), "stay")
		other.Ready()
		if s := stage.Query[api.Tree](i, "tree", "mine").Session; s == nil || s.UID != 0 {
			t.Errorf("root's mine is %+v", s)
		}
		for _, s := range stage.Query[api.Sessions](i, "ls").Items {
			if s.UID == stage.Nobody {
				i.End("--now", s.ID)
			}
		}
		other.MustBeGone()
		theirs.Wait()
	})

	if m.Drain(); stage.ProcStatus(pid, "State") == "" {
		t.Error("bad input ended somebody")
	}
	i.Finish(m, run, "mine")
}

// What a host may lack is reported before anything is started.
func TestHold7BadHost(t *testing.T) {
	t.Run("no daemon", func(t *testing.T) { refused(stage.New(t), api.ExitUnreachable, "ls") })
	t.Run("run without root", func(t *testing.T) { refusedNobody(stage.New(t), 125, "run", "--", "true") })
	t.Run("another API", func(t *testing.T) {
		i := stage.New(t)
		l := i.Listen()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(api.HeaderVersion, "v99.0.0")
			w.Header().Set(api.HeaderAPI, "99")
			fmt.Fprintln(w, `{"schema":"lineage/99","kind":"version","version":"v99.0.0","api":99}`)
		}))
		refused(i, api.ExitUnreachable, "ls")
		refused(i, 125, "run", "--", "true")
		l.Close()
	})
	in := func(i *stage.Instance, mounts string, args ...string) *stage.Process {
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", mounts + ` && exec $ENTER "$@"`, "sh", stage.Lineage}, args...)...)
		as := i.Command(nil, nil)
		cmd.Env, cmd.Dir = as.Env, as.Dir
		return stage.Start(i.T, cmd).Wait()
	}
	for name, host := range map[string]struct{ mounts, says string }{
		"no BTF":           {`mount -t tmpfs lngtest /sys/kernel/btf`, "BTF"},
		"other structures": {`btf=/sys/kernel/btf/vmlinux; sed 's/\x00start_boottime\x00/\x00renamed_by_tst\x00/' $btf >btf && mount --bind btf $btf`, "this kernel's task_struct has no start_boottime"},
		"read-only bpffs":  {`mount -t bpf -o ro bpf /sys/fs/bpf`, "mkdir /sys/fs/bpf/"},
		"read-only run":    {`mount -t tmpfs -o ro lngtest "$PWD"`, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			i := stage.New(t)
			for _, command := range []string{"doctor", "daemon"} {
				if p := in(i, host.mounts, command); p.Code() != api.ExitUnsupported || !strings.Contains(p.Out.String()+p.Err.String(), host.says) {
					t.Errorf("want exit %d and %q: %v", api.ExitUnsupported, host.says, p)
				}
			}
			checkRefused(i, in(i, host.mounts, "run", "--", "true"), 125)
		})
	}
	t.Run("time namespace", func(t *testing.T) {
		i := stage.New(t)
		const shifted, says = `ENTER="unshare --time --boottime 500000 --fork"`, "boottime by 500000 s"
		in(i, shifted, "run", "--", "true") // starts a daemon there
		said := in(i, shifted, "doctor").String() + strings.Join(i.Status().Degraded, "\n")
		if strings.Count(said, says) != 3 { // doctor has it from the daemon, and finds it
			t.Errorf("want %q: %s", says, said)
		}
	})
}
