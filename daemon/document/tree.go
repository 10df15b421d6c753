package document

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
)

// maxText bounds the command lines of one tree, in bytes of JSON. Members choose them: 16,384
// processes that share one of 4 KiB would make a document of 400 MB.
const maxText = 16 << 20

// Tree makes roots and nodes of rows, which are in preorder. Command lines beyond the limit are
// left out, and marked as truncated. The dead get half of it, so that they do not use it up.
func (e Encoder) Tree(rows []lineage.Branch, r Reader) (roots []api.Ref, nodes []api.Node) {
	roots, nodes = []api.Ref{}, []api.Node{}
	text := 0
	index := make(map[lineage.ID]int, len(rows))
	for _, b := range rows {
		n, ok := e.Graph.Node(b.ID)
		if !ok {
			continue
		}
		index[b.ID] = len(nodes)
		limit := maxText
		if n.State != lineage.Live {
			limit /= 2
		}
		if size := textSize(n.Argv, limit-text); text+size <= limit {
			text += size
			nodes = append(nodes, api.Node{Process: e.Process(&n, r)})
		} else {
			nodes = append(nodes, api.Node{Process: e.Process(&n, blind{})})
			nodes[len(nodes)-1].ArgvTruncated = len(n.Argv) > 0
		}
		if n.State == lineage.Live {
			nodes[len(nodes)-1].Busy = e.Clock.Wall(n.Use.Busy)
		}
		if up, ok := index[b.Creator]; ok && b.Creator.PID != 0 {
			nodes[up].Children = append(nodes[up].Children, Ref(b.ID))
		} else {
			roots = append(roots, Ref(b.ID))
		}
	}
	return roots, nodes
}

// blind is a reader who gets no command lines.
type blind struct{}

func (blind) Argv(uint32, []string) []string { return nil }

// textSize is the most that a command line takes as JSON. It counts no further than over limit.
func textSize(argv []string, limit int) (n int) {
	for _, arg := range argv {
		if n += len(arg) + len(`"",`); n > limit {
			break
		}
		for i := range len(arg) {
			switch c := arg[i]; {
			case c < ' ' || c > '~' || c == '<' || c == '>' || c == '&':
				n += len(`\u0000`) - 1
			case c == '"' || c == '\\':
				n++
			}
		}
	}
	return n
}
