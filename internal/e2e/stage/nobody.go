//go:build linux

package stage

import (
	"os"
	"path/filepath"
	"syscall"
)

// Nobody is a caller without rights.
const Nobody = 65534

// StartNobody runs lineage as a caller without rights, from where nobody can
// reach it: the checkout may be in a home that is closed to others.
func (i *Instance) StartNobody(env []string, args ...string) *Process {
	i.T.Helper()
	cmd := i.Command(args, env)
	cmd.Path = i.Copy(Lineage)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Nobody, Gid: Nobody}}
	return Start(i.T, cmd)
}

// Copy puts a program where everybody can run it.
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
	if err != nil {
		i.T.Fatal(err)
	}
	return to
}
