package api

import "cmp"

// Container is the container that a process runs in, as its cgroup and its runtime's own record name it. What is absent
// is not known.
type Container struct {
	ID        string `json:"id"`                  // 64 hexadecimal digits
	Name      string `json:"name,omitempty"`      // its name; in a pod, the name that the pod's specification has for it
	Image     string `json:"image,omitempty"`     // as it was asked for
	Runtime   string `json:"runtime,omitempty"`   // docker, containerd, cri-o, podman
	Pod       string `json:"pod,omitempty"`       // name of the pod
	Namespace string `json:"namespace,omitempty"` // of the pod
}

// String is how people call it: its name, with the pod's before it, else the beginning of its id.
func (c *Container) String() string {
	if c == nil {
		return ""
	}
	name := cmp.Or(c.Name, c.ID[:min(len(c.ID), 12)])
	if c.Pod != "" {
		return c.Namespace + "/" + c.Pod + "/" + name
	}
	return name
}
