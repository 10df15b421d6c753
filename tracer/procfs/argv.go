package procfs

import "strings"

// SplitArgv splits arguments that each end with NUL, as in the kernel's command line.
func SplitArgv(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}
