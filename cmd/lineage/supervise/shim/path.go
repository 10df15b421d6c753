//go:build linux

package shim

import (
	"cmp"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is what execvp(3) searches when PATH is not set.
const defaultPath = "/bin:/usr/bin"

// candidates are the files that execvp(3) would try for name, in order.
func candidates(name, path string) []string {
	if name == "" || strings.Contains(name, "/") {
		return []string{name}
	}
	path = cmp.Or(path, defaultPath)
	var files []string
	for dir := range strings.SplitSeq(path, ":") {
		dir = cmp.Or(dir, ".") // an empty element means the working directory
		files = append(files, dir+"/"+name)
	}
	return files
}

// try calls attempt on each candidate until one succeeds, and returns the error that
// execvp(3) would: a file that we may not execute outweighs files that do not exist;
// every other error is final.
func try(name, path string, attempt func(file string) error) error {
	result := error(unix.ENOENT)
	for _, file := range candidates(name, path) {
		err := attempt(file)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EACCES):
			result = err
		case strings.Contains(name, "/"):
			return err
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENODEV),
			errors.Is(err, unix.ESTALE), errors.Is(err, unix.ETIMEDOUT):
		default:
			return err
		}
	}
	return result
}

// Executable predicts whether name can be executed.
func Executable(name, path string) error {
	return try(name, path, func(file string) error {
		if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return unix.EACCES // execve's error for a directory
		}
		return nil
	})
}
