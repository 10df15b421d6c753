package lineage

// index finds nodes: a chained hash by PID, each chain ordered by start, youngest first, so that live processes are at
// the head. The nodes are the links: it allocates only to grow.
type index struct {
	buckets []*node
	n       int
}

func newIndex() index { return index{buckets: make([]*node, 1024)} }

func (x *index) bucket(pid uint32) **node {
	return &x.buckets[pid&uint32(len(x.buckets)-1)]
}

func (x *index) find(id ID) *node {
	for n := *x.bucket(id.PID); n != nil && n.id.Start >= id.Start; n = n.older {
		if n.id == id {
			return n
		}
	}
	return nil
}

// youngest returns the latest born process with that PID, or nil.
func (x *index) youngest(pid uint32) *node {
	for n := *x.bucket(pid); n != nil; n = n.older {
		if n.id.PID == pid {
			return n
		}
	}
	return nil
}

func (x *index) add(n *node) {
	if x.n >= len(x.buckets) {
		x.grow()
	}
	x.link(n)
	x.n++
}

func (x *index) link(n *node) {
	head := x.bucket(n.id.PID)
	var newer *node
	older := *head
	for older != nil && older.id.Start > n.id.Start {
		newer, older = older, older.older
	}
	n.newer, n.older = newer, older
	if newer != nil {
		newer.older = n
	} else {
		*head = n
	}
	if older != nil {
		older.newer = n
	}
}

func (x *index) remove(n *node) {
	if n.newer != nil {
		n.newer.older = n.older
	} else {
		*x.bucket(n.id.PID) = n.older
	}
	if n.older != nil {
		n.older.newer = n.newer
	}
	n.newer, n.older = nil, nil
	x.n--
}

// grow doubles the buckets. A chain splits into two that keep its order.
func (x *index) grow() {
	old := x.buckets
	x.buckets = make([]*node, 2*len(old))
	for _, head := range old {
		var last *node
		for n := head; n != nil; n = n.older {
			last = n
		}
		for n := last; n != nil; { // oldest first: each link is at the head
			next := n.newer
			x.link(n)
			n = next
		}
	}
}
