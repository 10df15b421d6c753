package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Orphans are orphans, leftovers, zombies and delegated work, and what tool calls have started and
// is alive.
type Orphans struct {
	Head
	Items []Orphan   `json:"items"` // the processes
	Calls []CallLeft `json:"calls"` // by session, and in each those first that use most CPUs
	// MoreCalls are those that had no room: what members claim takes at most 64 KiB of a session.
	MoreCalls int `json:"more_calls,omitempty"`
}

// CallLeft is the live processes of one session that a tool call has started. Several calls that
// were open at once may claim the same processes: it is unknown then which of them started each.
type CallLeft struct {
	Head
	Session     string        `json:"session"`                // id of the session that the processes are in
	SessionName string        `json:"session_name,omitempty"` // of that session
	Kept        bool          `json:"kept,omitempty"`         // the processes are meant to outlive the agent's session
	Calls       []Call        `json:"calls"`                  // claimed: the call, or all that may have started the processes. Calls of one agent with the same id count as one
	Ambiguous   bool          `json:"ambiguous,omitempty"`    // there are several calls; no end of a call ends these processes
	Agent       string        `json:"agent,omitempty"`        // the name (comm) of the agent's process
	Processes   int           `json:"processes"`              // that are alive
	CPUs        float64       `json:"cpus"`                   // that they used between the daemon's last two samples, at most 8 s apart; 1.5 is one and a half
	CPUSeconds  float64       `json:"cpu_seconds"`            // user and system time, as of the last sample; and of those that have exited
	RSSBytes    uint64        `json:"rss_bytes"`              // resident memory, as of the last sample; shared memory counts in each process
	Ports       []int         `json:"ports,omitempty"`        // that they listen on
	Commands    []CallCommand `json:"commands"`               // what runs, the most frequent first
	MoreRun     int           `json:"more_run,omitempty"`     // processes with other commands
}

// CallCommand is the processes of a call that run one command.
type CallCommand struct {
	Processes     int      `json:"processes"`                // that run it
	Comm          string   `json:"comm"`                     // the kernel's name
	Argv          []string `json:"argv,omitempty"`           // its arguments, for those who may read them
	ArgvTruncated bool     `json:"argv_truncated,omitempty"` // it is longer
}

// AgentOf finds the agent of a call that has live processes: [Client.EndBranch] ends what it started.
func (o *Orphans) AgentOf(call string) (agent Ref, err error) {
	for i := range o.Calls {
		for _, c := range o.Calls[i].Calls {
			switch {
			case c.ID != call || c.Agent == nil:
			case agent.PID != 0 && agent != *c.Agent:
				return Ref{}, NewError(
					CodeAmbiguous,
					fmt.Sprintf("call %s: agents %s and %s have one of that id", call, agent, *c.Agent),
					"name the session",
				)
			default:
				agent = *c.Agent
			}
		}
	}
	if agent.PID == 0 {
		return Ref{}, NewError(
			CodeNotFound,
			fmt.Sprintf("call %s: none of that id has a live process", call),
			`"lineage ls --calls" lists those that have`,
		)
	}
	return agent, nil
}

// OrphanWhy is why an [Orphan] is one.
type OrphanWhy string

// The reasons why a process is an [Orphan].
const (
	WhyOrphan    OrphanWhy = "orphan"    // its creator is dead, its session's root lives
	WhyLeftover  OrphanWhy = "leftover"  // its session's root is gone
	WhyZombie    OrphanWhy = "zombie"    // it is dead, its parent has not waited for it
	WhyDelegated OrphanWhy = "delegated" // another daemon started it for a member, or was asked to
)

// Orphan is a live process whose creator or root is dead, or that no member
// forked; or a zombie. If delegated work was asked for and no process was found, it
// is the member that asked.
type Orphan struct {
	Process
	Why         OrphanWhy `json:"why"`                    // orphan, leftover, zombie, delegated
	SessionName string    `json:"session_name,omitempty"` // of its session
	Kept        bool      `json:"kept,omitempty"`         // it is meant to outlive its session
	// Delegated is how it came to its session, if not by a fork.
	Delegated *Delegated `json:"delegated,omitempty"`
	// Reaper is the process that must wait for a zombie. Absent: not known.
	Reaper *Process `json:"reaper,omitempty"`
}

// Leaks is what sessions hold.
type Leaks struct {
	Head
	Items []Leak `json:"items"` // by session
}

// Leak is what one session holds, without nested sessions.
type Leak struct {
	Head
	Session string `json:"session"`         // id
	Name    string `json:"name,omitempty"`  // of the session
	Ports   []Port `json:"ports,omitempty"` // that its processes listen on
	Locks   []Lock `json:"locks,omitempty"` // that its processes hold
}

func (c *client) Orphans(ctx context.Context, session string) (*Orphans, error) {
	return fetch[Orphans](c, ctx, http.MethodGet, "/v1/orphans", values("session", session), nil)
}

func (c *client) Leaks(ctx context.Context) (*Leaks, error) {
	return fetch[Leaks](c, ctx, http.MethodGet, "/v1/leaks", nil, nil)
}

// Equal is live processes of one session with the same executed file, the same arguments except for numbers, and the
// same nearest living creator.
type Equal struct {
	Head
	Creator   *Process   `json:"creator,omitempty"` // absent: none lives
	Processes []*Process `json:"processes"`         // at least two, the longest idle first; busy and rss_bytes include descendants
	RSSBytes  uint64     `json:"rss_bytes"`         // of all of them
}

var digits = regexp.MustCompile(`[0-9]+`)

// Equal groups the equal processes of a tree that has the dead ancestors, those with most memory first. A process
// with unknown or truncated arguments is equal to no other.
func (t *Tree) Equal() (all []Equal) {
	sums, groups := make(map[Ref]*Process, len(t.Nodes)), make(map[string]*Equal)
	for i := range t.Nodes {
		sums[t.Nodes[i].Ref] = new(t.Nodes[i].Process)
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.State != StateLive {
			continue
		}
		creator, steps := (*Process)(nil), 0
		for a := n.creator(sums); a != nil && steps < len(sums); a = a.creator(sums) {
			if steps++; creator == nil && a.State == StateLive {
				creator = a
			}
			if a.RSSBytes += n.RSSBytes; n.Busy != nil && n.Busy.After(a.busy()) {
				a.Busy = n.Busy
			}
		}
		if n.Argv == nil || n.ArgvTruncated {
			continue
		}
		argv := digits.ReplaceAllString(strings.Join(n.Argv, "\x00"), "0")
		key := fmt.Sprintf("%v %q %s", cmp.Or(creator, &Process{}).Ref, n.Exe, argv)
		g := groups[key]
		if g == nil {
			g = &Equal{Head: Head{Kind: "equal"}, Creator: creator}
			groups[key] = g
		}
		g.Processes = append(g.Processes, sums[n.Ref])
	}
	for _, g := range groups {
		if len(g.Processes) > 1 {
			for _, p := range g.Processes {
				g.RSSBytes += p.RSSBytes
			}
			slices.SortFunc(g.Processes, func(a, b *Process) int {
				return cmp.Or(a.busy().Compare(b.busy()), cmp.Compare(a.StartNS, b.StartNS))
			})
			all = append(all, *g)
		}
	}
	slices.SortFunc(all, func(a, b Equal) int {
		return cmp.Or(cmp.Compare(b.RSSBytes, a.RSSBytes),
			cmp.Compare(a.Processes[0].StartNS, b.Processes[0].StartNS))
	})
	return all
}

func (p *Process) creator(all map[Ref]*Process) *Process { return all[*cmp.Or(p.Creator, &Ref{})] }

func (p *Process) busy() time.Time { return *cmp.Or(p.Busy, &time.Time{}) }
