package display

import (
	"path"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// monitors are programs that run virtual machines: of Kata Containers and Firecracker, as the kernel cuts their names.
var monitors = []string{"firecracker", "cloud-hyperviso", "qemu-system-"}

// Sandbox says of the process of a sandbox that the host sees no other one of it; "" for a process without such a name, which
// any process can take.
func Sandbox(p *api.Process) string {
	switch {
	case len(p.Argv) > 0 && path.Base(p.Argv[0]) == "runsc-sandbox":
		return "gVisor, what runs inside is not seen"
	case slices.ContainsFunc(monitors, func(name string) bool { return strings.HasPrefix(p.Comm, name) }):
		return "virtual machine, what runs inside is not seen"
	}
	return ""
}
