package document

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
)

// Subtree cuts rows, which are in preorder, to those at and below id.
func Subtree(rows []lineage.Branch, id lineage.ID) []lineage.Branch {
	i := slices.IndexFunc(rows, func(b lineage.Branch) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	rows = rows[i:]
	depth := rows[0].Depth
	if end := slices.IndexFunc(rows[1:], func(b lineage.Branch) bool { return b.Depth <= depth }); end >= 0 {
		rows = rows[:end+1]
	}
	rows[0].Creator = lineage.ID{}
	return rows
}

// Tree makes roots and nodes of rows, which are in preorder.
func (e Encoder) Tree(rows []lineage.Branch, r Reader) (roots []api.Ref, nodes []api.Node) {
	roots, nodes = []api.Ref{}, []api.Node{}
	index := make(map[lineage.ID]int, len(rows))
	for _, b := range rows {
		n, ok := e.Graph.Node(b.ID)
		if !ok {
			continue
		}
		index[b.ID] = len(nodes)
		nodes = append(nodes, api.Node{Process: e.Process(&n, r)})
		if up, ok := index[b.Creator]; ok && b.Creator.PID != 0 {
			nodes[up].Children = append(nodes[up].Children, Ref(b.ID))
		} else {
			roots = append(roots, Ref(b.ID))
		}
	}
	return roots, nodes
}
