package view

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// Tasks returns the states of processes. One with another start is another process: the
// daemon may be on another host, or the PID was reused.
func Tasks(refs []api.Ref) map[api.Ref]picture.Task {
	tasks := make(map[api.Ref]picture.Task, len(refs))
	for _, ref := range refs {
		s, err := procfs.FS("/proc").Stat(uint32(ref.PID))
		if err == nil && s.Start == uint64(ref.StartNS)/uint64(procfs.Tick) {
			tasks[ref] = picture.Task{State: string(rune(s.State)), Threads: s.Threads}
		}
	}
	return tasks
}
