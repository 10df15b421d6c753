//go:build linux

package lookup

import (
	"errors"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

// IsNotFound reports whether err means that memory has no such session; the history may
// have it.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeNotFound
}

// IsForgotten reports whether err means that memory has no such process, or another one
// with its PID; the history may have it.
func IsForgotten(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && (e.Code == api.CodeNotFound || e.Code == api.CodeIdentity)
}

// Foreign is the error for a caller whose PIDs mean nothing here.
func Foreign(c access.Caller) error {
	if c.Unplaced != nil {
		return api.NewError(api.CodePIDNamespace, fmt.Sprintf("the PID namespace of the caller cannot be read: %v", c.Unplaced),
			"the daemon needs the procfs of the initial PID namespace at /proc")
	}
	return api.NewError(api.CodePIDNamespace, "the caller is in another PID namespace: its PIDs are not valid here",
		"run it on the host, or in a container with --pid=host")
}

// OtherProcess is the error for a PID that another process has now.
func OtherProcess(ref api.Ref) error {
	return api.NewError(api.CodeIdentity,
		fmt.Sprintf("pid %d is not the process you named (%v)", ref.PID, ref), "")
}
