//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
)

// lookupAccount finds a user by name, else by number.
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
	var numbers []int
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return &shim.Account{Name: u.Username, Home: u.HomeDir, UID: numbers[0],
		GID: numbers[1], Groups: numbers[2:]}, nil
}

// environ returns env as after a login of the account.
func environ(a *shim.Account, env []string) []string {
	env = shim.SetEnv(env, "HOME", a.Home)
	env = shim.SetEnv(env, "USER", a.Name)
	return shim.SetEnv(env, "LOGNAME", a.Name)
}
