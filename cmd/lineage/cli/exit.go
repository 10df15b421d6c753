package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/lineage-ebpf/lineage/api"
)

// Error ends the command with Code. If Err is nil, the message has been printed already.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// Usage is a mistake in the command line.
func Usage(format string, args ...any) error { return Errorf(api.ExitUsage, format, args...) }

// Invalid says which values a flag or an argument takes instead of this one.
func Invalid(what string, value any, takes string) error {
	return fmt.Errorf("invalid %s %q: must be %s", what, fmt.Sprint(value), takes)
}

// aDuration is what a flag takes whose value is a time.
const aDuration = "a duration such as 30s or 1h"

// FileError gives the error of reading a file that the command line names its code.
func FileError(err error) error {
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", bad.Path, bad.Err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{api.ExitNotFound, err}
	}
	return err
}

// Silent ends the command with code and prints nothing more. It is nil for [api.ExitOK].
func Silent(code int) error {
	if code == api.ExitOK {
		return nil
	}
	return &Error{Code: code}
}

func ExitCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Exit
	}
	if _, ok := errors.AsType[*api.UnreachableError](err); ok {
		return api.ExitUnreachable
	}
	return api.ExitFailed
}
