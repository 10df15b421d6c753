//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// account is whom the command runs as.
type account struct {
	UID    int
	GID    int
	Groups []int
	Name   string
	Home   string
}

// lookupAccount finds an account by name, else by number.
func lookupAccount(name string) (*account, error) {
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
	a := &account{Name: u.Username, Home: u.HomeDir}
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
func (a *account) environ(env []string) []string {
	env = setEnv(env, "HOME", a.Home)
	env = setEnv(env, "USER", a.Name)
	return setEnv(env, "LOGNAME", a.Name)
}

// become makes the calling process, all threads of it, one of the account's.
// Groups first: the last step gives up the right to the others.
func (a *account) become() error {
	if err := unix.Setgroups(a.Groups); err != nil {
		return err
	}
	if err := unix.Setresgid(a.GID, a.GID, a.GID); err != nil {
		return err
	}
	return unix.Setresuid(a.UID, a.UID, a.UID)
}
