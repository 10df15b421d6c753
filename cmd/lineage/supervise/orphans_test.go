//go:build linux

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

func TestSubreaper(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("off=%v", off), func(t *testing.T) {
			s := script{}
			s.Options.NoSubreaper = off
			cmd := runCmd(t, s, "sh", "-c", `sh -c 'sleep 60 & echo orphan ready $!'; echo root ready $$; read x`)
			p, in := piped(t, cmd)
			orphan := p.member("orphan")
			p.member("root")
			defer unix.Kill(orphan, unix.SIGKILL)
			if got := parent(t, orphan); (got == cmd.Process.Pid) == off {
				t.Errorf("the orphan's parent is %d, run is %d", got, cmd.Process.Pid)
			}
			if !off {
				unix.Kill(orphan, unix.SIGKILL)
				require.Eventually(t, "the orphan is reaped", func() bool { return state(orphan) == 0 })
			}
			// It holds our pipes.
			unix.Kill(orphan, unix.SIGKILL)
			in.Close()
			if got := p.wait(); got.code != 1 { // the failed read
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Many orphans die at once, together with the root.
func TestReap(t *testing.T) {
	cmd := runCmd(t, script{}, "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9 10; do
		(true & true & true & true & true &); done; echo root ready $$; read x; exit 11`)
	p, in := piped(t, cmd)
	root := p.member("root")
	require.Eventually(t, "root is the only child of run", func() bool { return childrenOf(cmd.Process.Pid) == strconv.Itoa(root) })
	in.Close()
	if got := p.wait(); got.code != 11 {
		t.Errorf("got %+v", got)
	}
}

// childrenOf lists the children of all threads of pid, zombies included.
func childrenOf(pid int) string {
	var all []string
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		all = append(all, strings.Fields(string(b))...)
	}
	return strings.Join(all, " ")
}

func TestManyStartsLeaveNothing(t *testing.T) {
	got := run(t, script{Times: 200}, "true")
	var first, last int
	if _, err := fmt.Sscanf(got.stdout, "last %d first %d", &last, &first); err != nil || got.code != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	if last > first {
		t.Errorf("%d descriptors after 10 starts, %d after 200", first, last)
	}
}

// The command has the descriptors that run inherited, with the same numbers, and none
// of run's own. If one of the first three is closed, it is /dev/null.
func TestDescriptors(t *testing.T) {
	for _, c := range []struct{ name, sh, want string }{
		{"all", "$LNG ls /proc/self/fd </dev/zero 2>/dev/null", ""},
		{"inherited", "$LNG readlink /proc/self/fd/3 /proc/self/fd/4 /proc/self/fd/7 3</dev/zero 4</dev/full 7</dev/zero", ""},
		{"closed", "$LNG readlink /proc/self/fd/0 /proc/self/fd/2 <&- 2>&-", "/dev/null\n/dev/null\n"},
		{"all closed", "$LNG true <&- >&- 2>&-", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := finish(t, shell(t, "exec "+c.sh))
			if c.want == "" {
				c.want = finish(t, exec.Command("sh", "-c", strings.ReplaceAll(c.sh, "$LNG", "exec"))).stdout
			}
			if got.code != 0 || got.stdout != c.want {
				t.Errorf("code %d, stdout %q, want %q", got.code, got.stdout, c.want)
			}
		})
	}
}

func TestUser(t *testing.T) {
	require.Root(t)
	const sh = `id -u; id -g; id -G; echo $HOME $USER $LOGNAME; grep -E '^(Uid|Gid|CapEff)' /proc/self/status`
	for _, name := range []string{"nobody", "65534"} {
		s := script{}
		s.Options.User = name
		got := run(t, s, "sh", "-c", sh)
		want, err := exec.Command("sh", "-c", "id -u nobody; id -g nobody; id -G nobody; echo $(getent passwd nobody | cut -d: -f6) nobody nobody").Output()
		require.NoError(t, err)
		if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, string(want)) || !strings.Contains(got.stdout, "CapEff:\t0000000000000000\n") {
			t.Errorf("%s: %+v, want\n%s", name, got, want)
		}
	}
}

// What is not a user is refused.
func TestNoUser(t *testing.T) {
	for _, name := range []string{"lngtest-nobody", "nobody:1234", "-1", "99999999999"} {
		s := script{}
		s.Options.User = name
		if got := run(t, s, "true"); got.code != 125 || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The command has the user's supplementary groups.
func TestUserHasItsGroups(t *testing.T) {
	require.Root(t)
	groups := require.ReadFile(t, "/etc/group")
	file := filepath.Join(t.TempDir(), "group")
	require.NoError(t, os.WriteFile(file, append(groups, "lngtest-docker:x:54321:nobody\n"...), 0o644))
	s := script{}
	s.Options.User = "nobody"
	cmd := runCmd(t, s, "id", "-G")
	in := exec.Command("unshare", append([]string{"-m", "sh", "-c", `mount --bind "$0" /etc/group && exec "$@"`, file}, cmd.Args...)...)
	in.Env = cmd.Env
	if got := finish(t, in); got.code != 0 || got.stdout != "65534 54321\n" {
		t.Errorf("%+v", got)
	}
}

func TestSudo(t *testing.T) {
	require.Root(t)
	const line = "lineage: run: true runs as root, because sudo started lineage; add --user ann, or --user root if root is meant\n"
	for _, c := range []struct {
		user  string
		quiet bool
		uid   string // of the user who called sudo
		name  string
		want  string
	}{{"", false, "1001", "ann", line}, {"root", false, "1001", "ann", ""}, {"", true, "1001", "ann", ""},
		{"", false, "0", "root", ""}, {"", false, "1001", "root", ""}} {
		s := script{}
		s.Options.User, s.Options.Quiet = c.user, c.quiet
		cmd := runCmd(t, s, "true")
		cmd.Env = append(cmd.Env, "SUDO_UID="+c.uid, "SUDO_USER="+c.name)
		if got := finish(t, cmd); got.code != 0 || got.stderr != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
