//go:build linux

package acts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Memory is how long a plan can be used.
const Memory = 15 * time.Minute

const (
	maxPlans  = 131072 // the price of all plans: enough for as many sessions as a pattern may name, of 32 processes
	planPrice = 96
)

// plan is what a token stands for.
type plan struct {
	token   string
	of      Subject
	members map[tracer.Identity]tracer.EntryFlags // the flags that decide which members are spared
	// commands are the sums of those of the members, of a branch only.
	commands map[[16]byte]bool
	made     time.Duration
	by       owner
}

// owner is the user, and the session, that made a plan. The zero value is root outside of any
// session.
type owner struct {
	uid    uint32
	member tracer.SessionID
}

// sparing are the flags that keep a pass from signalling a member.
const sparing = tracer.FlagProtected

// plans remembers what the last tokens stand for.
type plans struct {
	mu  sync.Mutex
	all []*plan // oldest first
}

func (p *plans) add(n *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(o *plan) bool { return o.token == n.token && o.by == n.by })
	for i, price := p.spare(); len(p.all) > 0 && price+n.price() > maxPlans; i, price = p.spare() {
		p.all = slices.Delete(p.all, i, i+1)
	}
	p.all = append(p.all, n)
}

// price is what a plan takes: for itself, and for each process and command.
func (n *plan) price() int { return planPrice + len(n.members) + len(n.commands) }

// spare is the oldest plan of the owner whose plans take the most, and root's only if there are no others:
// by making plans, no user and no member can make those of others expire. price is that of all.
func (p *plans) spare() (at, price int) {
	count := make(map[owner]int)
	for _, n := range p.all {
		price += n.price()
		if n.by != (owner{}) {
			count[n.by] += n.price()
		}
	}
	for i, n := range p.all {
		if count[n.by] > count[p.all[at].by] {
			at = i
		}
	}
	return at, price
}

func (p *plans) find(tokens string, of Subject, now time.Duration) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	named := strings.Split(tokens, ",")
	for _, n := range p.all {
		if slices.Contains(named, n.token) && n.of == of && now-n.made < Memory {
			return n
		}
	}
	return nil
}

// broken describes why a plan no longer holds; "" if it does. New members break it, and a change in which of them are
// spared; deaths do not. Nor does, in a branch, a new process with the command of a named one: else no plan could end
// a program that forks.
func (n *plan) broken(now []tracer.Process, command func(tracer.Identity) [16]byte) string {
	for i := range now {
		p := &now[i]
		flags, named := n.members[p.Identity]
		switch {
		case !named && p.Flags&sparing == 0 && n.commands[command(p.Identity)]:
		case !named:
			return fmt.Sprintf("pid %d is not in the plan", p.PID)
		case flags != p.Flags&sparing:
			return fmt.Sprintf("pid %d would be treated differently now", p.PID)
		}
	}
	return ""
}

// token names a plan: the same session, members and holdings give the same token.
func token(of Subject, now []tracer.Process, held holdings.Held) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %v %q\n", uint64(of.Session), of.Root, of.Call)
	for i := range now {
		fmt.Fprintln(h, now[i].Identity, now[i].Flags&sparing)
	}
	for _, p := range held.Ports {
		fmt.Fprintf(h, "%v %q %d\n", p.Holder, p.String(), p.Netns)
	}
	for _, l := range held.Locks {
		fmt.Fprintf(h, "%v %s %q\n", l.Holder, l.Kind, l.Path)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
