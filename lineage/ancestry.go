package lineage

// Kind is how a process came to its creator's session.
type Kind uint8

// The kinds of an edge.
const (
	KindFork        Kind = iota // its creator forked it
	KindCloneParent             // the same with CLONE_PARENT: the parent was another one
	KindAdopted                 // it was entered later, on evidence
	KindRoot                    // the session began with it
)

func (k Kind) String() string {
	return [...]string{"fork", "clone_parent", "adopted", "root"}[min(k, KindRoot)]
}

// Edge is one step from a process towards the root of its session.
type Edge struct {
	Child    ID
	Creator  ID // zero: unknown
	Kind     Kind
	Evidence Evidence
	Source   uint8  // of Evidence
	Time     uint64 // boottime ns: when it was entered, or its start if that is unknown

	// What the creator ran when it forked Child.
	CreatorComm string
	CreatorArgv []string

	// Hops counts the ancestors that are left out here (see Options), starting with
	// Creator: the child of the next edge is that many steps further up.
	Hops uint32
}

// Ancestry returns the edges from a process to the root of its session, dead ancestors
// included, and not beyond. If the process was moved out of the session it was born in,
// they lead to the root of that session. The last edge has KindRoot unless part of the
// chain is unknown.
func (g *Graph) Ancestry(id ID) []Edge {
	n := g.index.find(id)
	if n == nil {
		return nil
	}
	root := n.root()
	var edges []Edge
	for ; n != nil; n = n.creator {
		if !n.known && n.creator == nil {
			break // only known as a creator
		}
		edges = append(edges, n.edge(n == root))
		if n == root || n.creator != nil && n.creator.session == nil {
			break
		}
	}
	return edges
}

// root returns the root of n's session among n and its ancestors, else the
// first root of any session, else nil.
func (n *node) root() *node {
	var first *node
	for a := n; a != nil; a = a.creator {
		if a.evidence != Root {
			continue
		}
		if a.session == n.session {
			return a
		}
		if first == nil {
			first = a
		}
	}
	return first
}

func (n *node) edge(root bool) Edge {
	e := Edge{Child: n.id, Creator: n.creatorID, Evidence: n.evidence,
		Source: n.source, Time: n.born, Hops: n.hops}
	if !n.birth {
		e.Time = n.id.Start
	}
	switch {
	case root:
		e.Kind = KindRoot
	case n.cloneParent:
		e.Kind = KindCloneParent
	case n.evidence == Adopted:
		e.Kind = KindAdopted
	}
	ran := n.inherited
	if n.unseen && n.creator != nil && n.hops == 0 {
		ran = n.creator.imageAt(n.id.Start)
	}
	switch {
	case ran != nil:
		e.CreatorComm, e.CreatorArgv = ran.Comm, ran.Argv
	case n.birthComm[0] != 0: // a fork copies the comm
		e.CreatorComm = n.birthComm.String()
	case n.creator != nil && n.hops == 0:
		e.CreatorComm = n.creator.Comm.String()
	}
	return e
}
