//go:build !linux

package view

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// Tasks returns nothing: the processes are on another machine.
func Tasks([]api.Ref) map[api.Ref]picture.Task { return nil }
