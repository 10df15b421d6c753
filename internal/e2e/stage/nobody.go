//go:build linux

package stage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Nobody is a caller without rights, Group the group lineage of [Instance.GroupDaemon].
const (
	Nobody = 65534
	Group  = 65531
)

// StartNobody runs lineage as a caller without rights, from a place that this user can reach.
func (i *Instance) StartNobody(env []string, args ...string) *Process {
	i.T.Helper()
	return i.startAs(Nobody, env, args)
}

// StartReader runs lineage as a caller whose only right is that of the group lineage.
func (i *Instance) StartReader(env []string, args ...string) *Process {
	i.T.Helper()
	i.Copy(Lineage + "-export")
	return i.startAs(Group, env, args)
}

func (i *Instance) startAs(gid uint32, env, args []string) *Process {
	i.T.Helper()
	cmd := i.Command(args, env)
	cmd.Path = i.Copy(Lineage)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Nobody, Gid: gid}}
	return Start(i.T, cmd)
}

// GroupDaemon starts a daemon as on a host with the group lineage, by its own /etc/group.
func (i *Instance) GroupDaemon(args ...string) *Process {
	i.T.Helper()
	groups := filepath.Join(i.Dir, "group")
	require.NoError(i.T, os.WriteFile(groups, fmt.Appendf(nil, "root:x:0:\nlineage:x:%d:\n", Group), 0o644))
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc/group && exec "$@"`,
		groups, Lineage, "daemon", "--socket", i.Socket)
	cmd.Args = append(cmd.Args, args...)
	return i.serve(cmd)
}

// Copy puts a program where every user can run it.
func (i *Instance) Copy(path string) string {
	i.T.Helper()
	to := filepath.Join(i.Dir, filepath.Base(path))
	if _, err := os.Stat(to); err == nil {
		return to // it may be running
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	require.NoError(i.T, err)
	return to
}
