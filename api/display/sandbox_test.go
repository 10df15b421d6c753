package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// TestSandbox: programs of sandboxes are told by their names, and no others.
func TestSandbox(t *testing.T) {
	for _, c := range []struct {
		comm, arg, want string
	}{
		{"exe", "runsc-sandbox", "gVisor, what runs inside is not seen"},
		{"qemu-system-x86", "/usr/bin/qemu-system-x86_64", "virtual machine, what runs inside is not seen"},
		{"firecracker", "/usr/bin/firecracker", "virtual machine, what runs inside is not seen"},
		{"cloud-hyperviso", "", "virtual machine, what runs inside is not seen"},
		{"qemu-img", "qemu-img", ""},
		{"exe", "runsc-gofer", ""},
		{"grep", "grep", ""},
	} {
		p := api.Process{Comm: c.comm}
		if c.arg != "" {
			p.Argv = []string{c.arg, "firecracker"}
		}
		if got := Sandbox(&p); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.comm, c.arg, got, c.want)
		}
	}
}
