//go:build linux

package supervise

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// LeakCheck says whether it is a failure if the command leaves a process.
type LeakCheck struct {
	Fail  bool
	After time.Duration // after the command's exit; a process that lives then is a leak
}

type leaks struct {
	looked bool                  // the session lived on for LeakCheck.After, and we ended it
	nodes  map[api.Ref]*api.Node // what lived then, and its creators; nil: not known
	code   int                   // the exit code of a command that exits with 0
}

// look ends the session, which outlives its root, when LeakCheck.After is over, and returns the receipt.
// That also has what exited on its own before, and what the policy keeps: neither is a leak.
func (k *leaks) look(ctx context.Context, r *runner, l *link) *api.Report {
	rep, err := l.report(ctx, r.session.ID, r.Leaks.After)
	if err == nil && rep.Verdict != "" {
		return rep
	}
	if tree, err := ask(ctx, l, func(c api.Client) (*api.Tree, error) { return c.Tree(ctx, r.session.ID, "ancestors") }); err == nil {
		k.nodes = make(map[api.Ref]*api.Node, len(tree.Nodes))
		for i := range tree.Nodes {
			k.nodes[tree.Nodes[i].Ref] = &tree.Nodes[i]
		}
	}
	k.looked = true
	if err := r.end(ctx, l, false); err != nil {
		return r.unknown(err)
	}
	return r.follow(ctx, l)
}

// judge sets the exit code: of a leak, or of our own failure if it is not known whether there are leaks.
func (k *leaks) judge(rep *api.Report) {
	if rep.Verdict == api.VerdictUnknown || k.looked && k.nodes == nil ||
		slices.ContainsFunc(rep.Delegated, api.Delegated.Shared) {
		k.code = exitFailed
	}
	for _, p := range rep.Processes {
		if k.lived(p) && p.Outcome != api.OutcomeKept {
			k.code = exitLeaks
		}
	}
}

// lived reports whether a leftover lived when we looked.
func (k *leaks) lived(p api.Outcome) bool {
	n := k.nodes[p.Ref]
	return n != nil && n.State == api.StateLive && p.Leftover
}

func (k *leaks) lists(p api.Outcome) bool { return k.nodes == nil || k.lived(p) }

// when says when leftovers were alive, before the words "CMD exited".
func (k *leaks) when(o *Options) string {
	if k.looked {
		return fmt.Sprintf("alive %v after", o.Leaks.After)
	}
	return "left over when"
}

// origin names the ports of a leftover, and its creator.
func (k *leaks) origin(rep *api.Report, p api.Outcome) string {
	n := k.nodes[p.Ref]
	if n == nil || n.Creator == nil {
		return ""
	}
	text := display.PortsOf(rep, p.PID) + fmt.Sprintf(", started by %d", n.Creator.PID)
	if up := k.nodes[*n.Creator]; up != nil {
		text += " " + up.Comm
	}
	return text
}
