//go:build linux

package daemon

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// shedPeriod is between two looks whether the daemon has nothing to do.
const shedPeriod = 5 * time.Minute

// keepSmall gives memory back now, when the start is over, and then once a
// period if no session lives.
func (s *server) keepSmall(ctx context.Context) {
	tick := time.NewTicker(shedPeriod)
	defer tick.Stop()
	for busy := false; ; busy = s.count() > 0 {
		if !busy {
			if err := shed(); err != nil {
				s.log.Debug().Err(err).Msg("memory not given back")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// shed gives back the heap that is free, and the pages of our own program. What
// of those is needed comes back with a fault for 16 pages each, out of the page
// cache: the next session takes some 4 ms longer. The kernel does the same with
// any program's pages when memory is short. What is not needed is ours no
// longer, and the first to go when the host needs memory: most of a program
// runs at its start and never again.
func shed() error {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find our program: %w", err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read our mappings: %w", err)
	}
	for _, m := range unwritten(smaps, exe) {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(m.from), uintptr(m.to-m.from), unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back our program's pages: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ from, to uint64 }

// unwritten gives the mappings of exe, in the text of /proc/PID/smaps
// (proc_pid_smaps(5)), that are as the file is: they cannot be written, and no
// page of them ever was. A page of a private mapping that was written is
// anonymous, or swapped out, and MADV_DONTNEED would lose it: the relocations
// of a program that is linked dynamically, which are made read-only after, or a
// tracer's breakpoint.
func unwritten(smaps []byte, exe string) (found []mapping) {
	var m mapping
	ours := false
	written := 0 // KiB
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case fields[0] == "Anonymous:" || fields[0] == "Swap:":
			n, err := strconv.Atoi(fields[1])
			if ours = ours && err == nil; ours {
				written += n
			}
		case fields[0] == "VmFlags:": // the last of each
			if ours && written == 0 {
				found = append(found, m)
			}
			ours = false
		case !strings.HasSuffix(fields[0], ":"):
			var perms, offset, device, inode string
			n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s", &m.from, &m.to, &perms, &offset, &device, &inode)
			_, path, _ := strings.Cut(line, "/")
			ours = n == 6 && "/"+strings.TrimSuffix(path, "\n") == exe && (perms == "r--p" || perms == "r-xp")
			written = 0
		}
	}
	return found
}
