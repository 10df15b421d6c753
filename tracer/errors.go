//go:build linux

package tracer

import (
	"errors"
	"fmt"
)

// Why a host cannot be traced, or a verb failed. Compare with errors.Is; the message of
// the error that wraps them says what to do.
var (
	// ErrUnsupported matches every error that says that this host cannot be traced.
	ErrUnsupported = errors.New("this host cannot be traced")

	ErrNotRoot      = &UnsupportedError{What: "not root", Do: "run with sudo"}
	ErrNoCapability = &UnsupportedError{
		What: "no capability to load tracing programs",
		Do:   "run with CAP_SYS_ADMIN, or with CAP_BPF and CAP_PERFMON; in a container: --privileged --pid=host",
	}
	ErrNoBTF = &UnsupportedError{What: "the kernel has no BTF (/sys/kernel/btf/vmlinux)",
		Do: "use a kernel with CONFIG_DEBUG_INFO_BTF=y"}
	ErrKernelTooOld = &UnsupportedError{What: "the kernel is too old", Do: "use Linux " + MinKernel + " or later"}
	ErrLockdown     = &UnsupportedError{What: "the kernel is locked down to confidentiality",
		Do: "boot without lockdown=confidentiality"}
	ErrRefused = &UnsupportedError{
		What: "the kernel refuses a program that tracing needs",
		Do:   "boot without lockdown=confidentiality, and look for a security module that restricts bpf(2)",
	}
	ErrUnfit = &UnsupportedError{
		What: "the programs do not fit this kernel",
		Do:   "use Linux " + MinKernel + " or later, or a later version of lineage",
	}
	ErrPIDNamespace = &UnsupportedError{What: "not in the initial PID namespace",
		Do: "run on the host, or in a container with --pid=host"}
	ErrNoBPFFS = &UnsupportedError{
		What: "no bpffs",
		Do:   "run: mount -t bpf -o mode=0700 bpf /sys/fs/bpf; in a container: give it the host's /sys/fs/bpf",
	}
	ErrUnsafePins = &UnsupportedError{
		What: "users other than root could replace the pins",
		Do:   "remove what root does not own, and run: chmod 0700 /sys/fs/bpf",
	}

	// ErrOtherABI: the pins were made by another version.
	ErrOtherABI = errors.New("pins of another version")
	// ErrNotFound: no such process, entry or session.
	ErrNotFound = errors.New("not found")
	// ErrProtected: the process may not become a member, or a member may not be protected.
	ErrProtected = errors.New("protected")
	// ErrTooDeep: sessions are already nested MaxDepth deep.
	ErrTooDeep = errors.New("sessions are nested too deep")
	// ErrFull: no session slot is free.
	ErrFull = errors.New("no free session slot")
	// ErrRoot: the process is the root of the session that it should leave.
	ErrRoot = errors.New("it is the root")
	// ErrBusy: the session is not empty yet, or its end has begun.
	ErrBusy = errors.New("session is not empty, or its end has begun")
)

// UnsupportedError says what this host lacks and what to do about it. Detail, if any,
// is what was found.
type UnsupportedError struct {
	What, Detail, Do string
}

func (e *UnsupportedError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s; %s", e.What, e.Do)
	}
	return fmt.Sprintf("%s (%s); %s", e.What, e.Detail, e.Do)
}

// Is makes every UnsupportedError match ErrUnsupported, and one with a detail match the
// same one without.
func (e *UnsupportedError) Is(target error) bool {
	if target == ErrUnsupported {
		return true
	}
	t, ok := target.(*UnsupportedError)
	return ok && t.What == e.What
}

func (e *UnsupportedError) with(detail string) *UnsupportedError {
	return &UnsupportedError{What: e.What, Detail: detail, Do: e.Do}
}
