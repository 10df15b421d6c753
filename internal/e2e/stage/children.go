//go:build linux

package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children lists the PIDs of the children of all threads of a process, zombies too.
func Children(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
