package procfs

import "strings"

// SplitArgv splits arguments that are each ended by NUL, as the kernel has a command
// line.
func SplitArgv(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}
