package lineage

import "time"

// Container is the container that a process runs in, as its cgroup and its runtime's own record
// name it. It is shared by the processes of the container, and never changed. Empty: not known.
type Container struct {
	ID        string    // 64 hexadecimal digits
	Name      string    `json:",omitempty"` // of the container; in a pod, as the pod's specification names it
	Image     string    `json:",omitempty"`
	Runtime   string    `json:",omitempty"` // docker, containerd, cri-o, podman
	Pod       string    `json:",omitempty"`
	Namespace string    `json:",omitempty"` // of the pod
	Created   time.Time `json:",omitzero"`  // by docker's record
}

// Container is the container of a process; nil: none, or not known.
func (g *Graph) Container(id ID) *Container {
	n := g.index.find(id)
	if n == nil {
		return nil
	}
	return n.container
}

// Contain sets the container of a process, and of all descendants that inherited its previous one.
func (g *Graph) Contain(id ID, c *Container) {
	if id.names() {
		g.contain(g.touch(id), c)
		g.trim()
	}
}

func (g *Graph) contain(n *node, c *Container) {
	if was := n.container; c != was {
		g.spread(n, func(n *node) { n.container = c }, func(x *node) bool { return x.container == was })
	}
}

// spread changes n, and all descendants that inherited what n had, as inherits tells of each child.
func (g *Graph) spread(n *node, change func(*node), inherits func(*node) bool) {
	queue := append(g.queue[:0], n)
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		change(n)
		g.mark(n)
		for x := n.children.head; x != nil; x = x.links[siblings].next {
			if inherits(x) {
				queue = append(queue, x)
			}
		}
	}
	g.queue = queue
}
