//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise/shim"
)

// lookupAccount finds USER or USER:GROUP, each by name, else by number. With GROUP the
// account has no other groups; a number needs no account.
func lookupAccount(name string) (*shim.Account, error) {
	name, group, grouped := strings.Cut(name, ":")
	if !grouped {
		return lookupUser(name)
	}
	a, err := lookupUser(name)
	if errors.As(err, new(user.UnknownUserIdError)) {
		uid, number := strconv.ParseUint(name, 10, 31)
		a, err = &shim.Account{Name: name, Home: "/", UID: int(uid)}, number
	}
	if err != nil {
		return nil, err
	}
	if g, err := user.LookupGroup(group); err == nil {
		group = g.Gid
	}
	gid, err := strconv.ParseUint(group, 10, 31)
	if err != nil {
		return nil, user.UnknownGroupError(group)
	}
	a.GID, a.Groups = int(gid), []int{int(gid)}
	return a, nil
}

func lookupUser(name string) (*shim.Account, error) {
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
	return &shim.Account{Name: u.Username, Home: u.HomeDir, UID: numbers[0], GID: numbers[1], Groups: numbers[2:]}, nil
}

// environ returns env as after a login of the account.
func environ(a *shim.Account, env []string) []string {
	env = shim.SetEnv(env, "HOME", a.Home)
	env = shim.SetEnv(env, "USER", a.Name)
	return shim.SetEnv(env, "LOGNAME", a.Name)
}
