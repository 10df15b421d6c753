package hook

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// BecomeUser returns the user's home. Under sudo this process permanently becomes the user
// who called it, so that it cannot be tricked into writing what that user may not write.
func BecomeUser(env func(string) string, euid int) (home string, err error) {
	uid, err := strconv.Atoi(env("SUDO_UID"))
	if err != nil || uid == 0 || euid != 0 {
		return os.UserHomeDir()
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return "", err
	}
	for _, become := range []func() error{
		func() error { return syscall.Setgroups([]int{gid}) },
		func() error { return syscall.Setgid(gid) },
		func() error { return syscall.Setuid(uid) },
	} {
		if err := become(); err != nil {
			return "", fmt.Errorf("cannot become %s: %w", u.Username, err)
		}
	}
	return u.HomeDir, nil
}
