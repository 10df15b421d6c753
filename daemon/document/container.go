package document

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
)

// Container is a container in documents; nil stays nil.
func Container(c *lineage.Container) *api.Container {
	if c == nil {
		return nil
	}
	return &api.Container{ID: c.ID, Name: c.Name, Image: c.Image, Runtime: c.Runtime, Pod: c.Pod, Namespace: c.Namespace}
}
