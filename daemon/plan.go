//go:build linux

package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const (
	maxPlans   = 64
	planMemory = 15 * time.Minute
	// planCollect bounds the reading of ports and locks for a plan, and for
	// the question why.
	planCollect = 3 * time.Second
)

// plan is what a token stands for.
type plan struct {
	token   string
	session tracer.SessionID
	members map[tracer.Identity]tracer.EntryFlags // that matter to who is spared
	made    time.Duration
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
	p.all = slices.DeleteFunc(p.all, func(o *plan) bool { return o.token == n.token })
	if len(p.all) == maxPlans {
		p.all = p.all[1:]
	}
	p.all = append(p.all, n)
}

func (p *plans) find(token string, id tracer.SessionID, now time.Duration) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.all {
		if n.token == token && n.session == id && now-n.made < planMemory {
			return n
		}
	}
	return nil
}

// holds says why a plan no longer holds; "" if it does. Who has died since
// changes nothing; who is new, or was to be spared, does.
func (n *plan) broken(now []tracer.Process) string {
	for i := range now {
		p := &now[i]
		flags, named := n.members[p.Identity]
		switch {
		case !named:
			return fmt.Sprintf("pid %d was not in it", p.PID)
		case flags != p.Flags&sparing:
			return fmt.Sprintf("pid %d is treated in another way now", p.PID)
		}
	}
	return ""
}

// alive gives the members that a signal could reach.
func (s *server) alive(id tracer.SessionID) (all []tracer.Process, err error) {
	err = s.kernel.Snapshot(id, func(p *tracer.Process) error {
		if !p.Dead && !p.Zombie {
			all = append(all, *p)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b tracer.Process) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	return all, err
}

// checkPlan refuses an end that is not the one that was planned. It is asked
// right before the first signal; what a member forks after that goes with it.
func (s *server) checkPlan(token string, id tracer.SessionID) error {
	changed := func(why string) error {
		return api.NewError(api.CodeChanged, fmt.Sprintf("end %v: the plan no longer holds: %s; nothing was sent", id, why),
			"make a new one with --dry-run")
	}
	n := s.plans.find(token, id, s.clock.Monotonic())
	if n == nil {
		return changed("it is not known, or too old")
	}
	now, err := s.alive(id)
	if err != nil {
		return fmt.Errorf("read the session's members: %w", err)
	}
	if why := n.broken(now); why != "" {
		return changed(why)
	}
	return nil
}

// postPlan says what an end would do. It sends nothing.
func (s *server) postPlan(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req struct{}
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	var id tracer.SessionID
	d := api.Plan{Head: head("plan"), Processes: []api.PlanProcess{}}
	over := false
	err := s.withSession(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		id, over = x.ID(), x.Closed()
		d.Session, d.Name, d.State = id.String(), x.Info().Name, x.State()
		if end := access.Decide(c, access.End, v.Scope(x)); !end.Allow {
			d.RefusedBy = "not permitted: " + end.Why
		}
	})
	if unremembered(err) {
		p, err := s.past(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		d.Session, d.Name, d.State = p.Word, p.Name, p.doc.State
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	if over {
		return reply(w, http.StatusOK, d)
	}
	done, err := s.readProcfs(r.Context())
	if err != nil {
		return err
	}
	defer done()
	now, err := s.alive(id)
	if err != nil {
		return fmt.Errorf("read the session's members: %w", err)
	}
	if d.RefusedBy == "" {
		if err := s.enforcer.CheckEnd(id, c.ID); err != nil {
			var refusal *enforcer.Refusal
			if !errors.As(err, &refusal) {
				return err
			}
			d.RefusedBy = refusal.Error()
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), planCollect)
	defer cancel()
	ids := make([]tracer.Identity, len(now))
	for i := range now {
		ids[i] = now[i].Identity
	}
	began := s.clock.Boottime()
	held := s.holds.Of(ctx, ids)
	d.Unknown = held.Unknown
	traced, err := s.outsiders(ctx, now)
	if err != nil {
		d.Unknown = append(d.Unknown, err.Error())
	}
	err = s.registry.Update(func(v registry.Tx) {
		d.Processes = v.Encoder().Plan(id, now, c)
		if x := v.Session(id); x != nil && !x.Closed() {
			v.Holds(x, held, began) // an end at once has no time to look again
		}
	})
	if err != nil {
		return err
	}
	var shown []*api.Process
	for i := range d.Processes {
		p := &d.Processes[i]
		p.Killable, p.Reason = s.killable(&now[i])
		p.Reason = tracing(p.Reason, s.tracedBy(now[i].PID), traced[now[i].PID])
		p.Ports, p.Locks = of(held, now[i].Identity)
		shown = append(shown, &p.Process)
	}
	s.enrich(c, shown...)
	if d.RefusedBy == "" && len(now) > 0 {
		n := &plan{session: id, members: make(map[tracer.Identity]tracer.EntryFlags), made: s.clock.Monotonic()}
		for i := range now {
			n.members[now[i].Identity] = now[i].Flags & sparing
		}
		n.token = token(id, now, held)
		s.plans.add(n)
		d.Token = n.token
	}
	return reply(w, http.StatusOK, d)
}

// token names a plan: the same session, members and holdings give the same.
func token(id tracer.SessionID, now []tracer.Process, held resources.Held) string {
	h := sha256.New()
	fmt.Fprintln(h, uint64(id))
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

func of(held resources.Held, id tracer.Identity) (ports []api.Port, locks []api.Lock) {
	for i := range held.Ports {
		if held.Ports[i].Holder == id {
			ports = append(ports, document.Port(&held.Ports[i]))
		}
	}
	for i := range held.Locks {
		if held.Locks[i].Holder == id {
			locks = append(locks, document.Lock(&held.Locks[i]))
		}
	}
	return ports, locks
}

// killable says whether SIGKILL would end a member soon, and what else its
// death means. procfs tells, so it is for people.
func (s *server) killable(t *tracer.Process) (bool, string) {
	if t.Flags&sparing != 0 {
		return false, "protected"
	}
	stat, err := s.proc.Stat(t.PID)
	if err != nil {
		return true, ""
	}
	b, _ := s.proc.Read(t.PID, "wchan", procfs.MaxFile)
	wchan := strings.TrimSpace(string(b))
	switch {
	case wchan == "__refrigerator":
		return false, "frozen: it dies when it is thawed"
	case stat.State == 'D' && wchan != "kernel_clone": // which waits for a vfork, and can be killed
		if wchan == "" || wchan == "0" {
			return false, "state D: it dies when what it waits for returns"
		}
		return false, fmt.Sprintf("state D (%s): it dies when that returns", wchan)
	case t.NSPID == 1:
		return true, "it is PID 1 of a namespace: everything in that dies with it"
	}
	return true, ""
}
