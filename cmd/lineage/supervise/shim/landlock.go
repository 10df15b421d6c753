//go:build linux

package shim

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scopeABI is the first version of Landlock that has LANDLOCK_SCOPE_SIGNAL: Linux 6.12.
const scopeABI = 6

// CanConfine returns why the kernel cannot keep signals within a session, nil if it can.
func CanConfine() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0,
		0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS || errno == unix.EOPNOTSUPP:
		return errors.New("the kernel has no Landlock; it needs Linux 6.12, with landlock in lsm=")
	case errno != 0:
		return fmt.Errorf("version of Landlock: %w", errno)
	case abi < scopeABI:
		return fmt.Errorf("the kernel's Landlock has version %d, and 6 is needed: Linux 6.12", abi)
	}
	return nil
}

// confine keeps the calling thread, and all that descends from it, from signalling a process outside:
// one that is neither the thread's process nor a descendant. It cannot be undone. Without CAP_SYS_ADMIN
// it sets no_new_privs. See landlock(7).
func confine() error {
	scope := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	// The size is that of version 6: a kernel that does not know the rest may refuse it.
	size := unsafe.Offsetof(scope.Scoped) + unsafe.Sizeof(scope.Scoped)
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&scope)), size, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(rules))
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
	if errno == unix.EPERM {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}
