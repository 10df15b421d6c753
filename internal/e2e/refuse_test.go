//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// refused demands the code of a command, one line on stderr and nothing on stdout.
func refused(i *stage.Instance, code int, p *stage.Process) {
	i.T.Helper()
	text := p.Err.String()
	if p.Code() != code || p.Out.Len() != 0 {
		i.T.Errorf("want exit %d and nothing on stdout: %v", code, p)
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "lineage: ") {
		i.T.Errorf("want one line that starts with lineage: %v", p)
	}
}

// What a host may lack is reported before anything is started.
func TestHold7BadHost(t *testing.T) {
	t.Run("no daemon", func(t *testing.T) {
		i := stage.New(t)
		refused(i, api.ExitUnreachable, i.Lineage("ls"))
		refused(i, 125, i.StartNobody(nil, "run", "--", "true").Wait()) // without root
	})
	t.Run("another API", func(t *testing.T) {
		i := stage.New(t)
		l := i.Listen()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(api.HeaderVersion, "v99.0.0")
			w.Header().Set(api.HeaderAPI, "99")
			fmt.Fprintln(w, `{"schema":"lineage/99","kind":"version","version":"v99.0.0","api":99}`)
		}))
		refused(i, api.ExitUnreachable, i.Lineage("ls"))
		refused(i, 125, i.Lineage("run", "--", "true"))
		l.Close()
	})
	in := func(i *stage.Instance, mounts string, args ...string) *stage.Process {
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", mounts + ` && exec $ENTER "$@"`, "sh", stage.Lineage}, args...)...)
		as := i.Command(nil, nil)
		cmd.Env, cmd.Dir = as.Env, as.Dir
		return stage.Start(i.T, cmd).Wait()
	}
	for name, host := range map[string]struct{ mounts, says string }{
		"no BTF": {`mount -t tmpfs lngtest /sys/kernel/btf`, "BTF"},
		"other structures": {`btf=/sys/kernel/btf/vmlinux; sed 's/\x00start_boottime\x00/\x00renamed_by_tst\x00/' $btf >btf && mount --bind btf $btf`,
			"this kernel's task_struct has no start_boottime"},
		"a container":     {`ENTER="unshare --pid --fork --mount-proc"`, "not in the initial PID namespace"},
		"no capabilities": {`ENTER="setpriv --bounding-set=-all --inh-caps=-all"`, "no capability to load tracing programs"},
		"read-only bpffs": {`mount -t bpf -o ro bpf /sys/fs/bpf`, "mkdir /sys/fs/bpf/"},
		"read-only run":   {`mount -t tmpfs -o ro lngtest "$PWD"`, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			i := stage.New(t)
			for _, command := range []string{"doctor", "daemon"} {
				if p := in(i, host.mounts, command); p.Code() != api.ExitUnsupported ||
					!strings.Contains(p.Out.String()+p.Err.String(), host.says) {
					t.Errorf("want exit %d and %q: %v", api.ExitUnsupported, host.says, p)
				}
			}
			refused(i, 125, in(i, host.mounts, "run", "--", "true"))
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
