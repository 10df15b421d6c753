//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
)

// lookupAccount finds an account by name, else by number.
func lookupAccount(name string) (*shim.Account, error) {
	u, err := user.Lookup(name)
	if errors.As(err, new(user.UnknownUserError)) {
		if _, number := strconv.Atoi(name); number == nil {
			u, err = user.LookupId(name)
		}
	}
	if err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	a := &shim.Account{Name: u.Username, Home: u.HomeDir}
	numbers := []*int{&a.UID, &a.GID}
	for i, s := range []string{u.Uid, u.Gid} {
		if *numbers[i], err = strconv.Atoi(s); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		a.Groups = append(a.Groups, gid)
	}
	return a, nil
}

// environ gives env as a login of the account has it.
func environ(a *shim.Account, env []string) []string {
	env = shim.SetEnv(env, "HOME", a.Home)
	env = shim.SetEnv(env, "USER", a.Name)
	return shim.SetEnv(env, "LOGNAME", a.Name)
}
