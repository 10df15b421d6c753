//go:build linux

package simulation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing/synctest"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// act is what may happen. Its text says to whom.
type act struct {
	name      string
	unlimited bool // a fault that the daemon cannot mend
	do        func(x *sim) string
}

// failing are the requests to the kernel that may fail.
var failing = []string{"Sessions", "Session", "Snapshot", "Settle", "Sentence", "End", "Reconcile", "MissedBirths", "Counters", "Identify", "Lookup", "Release"}

// acts are what may happen, some of it more often.
var acts = []act{
	{"outsider", false, func(x *sim) string { return fmt.Sprint(x.add(1, "lngtest").PID) }},
	{"fork", false, (*sim).fork}, {"fork", false, (*sim).fork}, {"fork", false, (*sim).fork},
	{"agent", false, ofProcess(func(x *sim, p *kerneltest.Proc) any { return x.k.Become(p.PID, simAgent) })},
	{"exec", false, ofProcess(func(x *sim, p *kerneltest.Proc) any { x.k.Exec(p.PID, "/bin/lngtest", "lngtest\x00"); return "" })},
	{"exit", false, (*sim).exit}, {"exit", false, (*sim).exit},
	{"create", false, ofProcess((*sim).create)},
	{"hand over", false, (*sim).handOver},
	{"keep", false, ofProcess((*sim).keep)},
	{"end", false, (*sim).end}, {"end", false, (*sim).end},
	{"dissolve", false, (*sim).dissolve},
	{"temper", false, ofProcess(func(x *sim, p *kerneltest.Proc) any {
		how := x.rnd.IntN(4)
		x.k.Edit(p.PID, func(p *kerneltest.Proc) {
			p.IgnoreTerm, p.Stubborn, p.Unreaped, p.Slow = how == 0, how == 1, how == 2, how == 3
		})
		return how
	})},
	{"rest", false, (*sim).pause}, {"rest", false, (*sim).pause}, {"rest", false, (*sim).pause},
	{"finish", false, func(x *sim) string { x.finish(); return "" }},
	{"lose", false, func(x *sim) string {
		what := ""
		if x.chance(70) { // before the daemon reads it
			what = (*sim).exit(x)
		}
		n := x.k.DropEvents()
		x.k.Lose(uint64(n) + 1)
		return fmt.Sprint(what, n)
	}},
	{"lose in silence", true, func(x *sim) string { return fmt.Sprint(x.k.DropEvents()) }},
	{"miss a birth", false, ofProcess(func(x *sim, parent *kerneltest.Proc) any {
		child := x.add(parent.PID, "lngtest")
		x.k.Miss("fork_birth")
		if parent.Session != 0 {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.missed[child] = parent.Session
		}
		return child.PID
	})},
	{"refuse", false, func(x *sim) string {
		m := failing[x.rnd.IntN(len(failing))]
		x.refusing = true
		x.k.Fail(m, errors.New("refused"))
		return m
	}},
	{"heal", false, func(x *sim) string { x.heal(); return "" }},
	{"disk", false, func(x *sim) string {
		x.disk.mu.Lock()
		defer x.disk.mu.Unlock()
		x.disk.failing, x.disk.full = x.chance(50), x.chance(50)
		return fmt.Sprint(x.disk.failing, x.disk.full)
	}},
	{"tear", true, func(x *sim) string { x.disk.tear(func() bool { return x.chance(30) }); return "" }},
	{"restart", false, (*sim).restart},
	{"crash", true, func(x *sim) string {
		x.disk.mu.Lock()
		x.store.killed = true
		x.disk.mu.Unlock()
		x.gate.shut.Store(true)
		return x.restart()
	}},
}

// ofProcess is an act of any live process but init and the daemon.
func ofProcess(f func(*sim, *kerneltest.Proc) any) func(*sim) string {
	return func(x *sim) string {
		synctest.Wait() // or it may be dead by then
		var all []uint32
		for _, p := range x.k.Alive(0) {
			if p.PID > 2 && p.PID != daemonPID {
				all = append(all, p.PID)
			}
		}
		if len(all) > 0 {
			if p := x.k.Proc(all[x.rnd.IntN(len(all))]); p != nil {
				return fmt.Sprint(p.PID, " ", f(x, p))
			}
		}
		return "nobody"
	}
}

// next is a PID for a process that is born: half of the time one that was used before.
func (x *sim) next() uint32 {
	if pid := 1001 + uint32(x.rnd.IntN(int(x.pid)-999)); pid <= x.pid && x.chance(50) && x.k.Proc(pid) == nil {
		x.forget(pid)
		return pid
	}
	x.pid++
	return x.pid
}

// forget removes what procfs shows of a process.
func (x *sim) forget(pid uint32) {
	_ = os.RemoveAll(filepath.Join(x.dir, strconv.Itoa(int(pid))))
}

func (x *sim) add(parent uint32, comm string) tracer.Identity {
	return x.k.Add(x.next(), parent, comm).Identity
}

func (x *sim) fork() string {
	return ofProcess(func(x *sim, p *kerneltest.Proc) any {
		child := x.next()
		x.k.Fork(p.PID, child, "lngtest")
		return child
	})(x)
}

func (x *sim) exit() string {
	return ofProcess(func(x *sim, p *kerneltest.Proc) any { x.k.Exit(p.PID, 0); return "" })(x)
}

// finish ends every teardown that takes its time.
func (x *sim) finish() {
	synctest.Wait()
	for pid := uint32(1000); pid <= x.pid; pid++ {
		if p := x.k.Proc(pid); p != nil && p.Dead && !p.Zombie {
			x.k.Finish(pid)
		}
	}
}

// create opens a session, whose token only what it hands over has.
func (x *sim) create(p *kerneltest.Proc) (text any) {
	_ = x.r.Update(func(tx registry.Tx) {
		s, err := tx.Create(tracer.SessionSpec{Root: p.Identity, UID: 1000, KeepOnRootExit: x.chance(20)})
		if text = err; err == nil {
			text = s.ID()
			x.handed.SetToken(tx.View, s.ID(), lookup.SumOf("secret of "+s.ID().String()))
			tx.Save(s)
		}
	})
	return text
}

// handOver: another daemon begins a process for a session. Half of the time that dies, and its PID is another's, when
// the daemon has met it.
func (x *sim) handOver() string {
	s, ok := x.session()
	if !ok {
		return "none"
	}
	p := x.add(1, "lngtest")
	x.k.Edit(p.PID, func(p *kerneltest.Proc) { p.UID = 1000 })
	environ := "LINEAGE_SESSION=" + s.ID.String() + "\x00"
	if x.chance(50) {
		environ += "LINEAGE_TOKEN=secret of " + s.ID.String() + "\x00"
	}
	dir := filepath.Join(x.dir, strconv.Itoa(int(p.PID)))
	for name, text := range map[string]string{"environ": environ, "cgroup": "0::/\n"} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			x.fail("%v", err)
		}
	}
	x.work[p] = s.ID
	if x.chance(50) {
		x.gate.swap.Store(p.PID)
	}
	return fmt.Sprint(p.PID, " ", s.ID)
}

// keep opens a kept session over a member.
func (x *sim) keep(p *kerneltest.Proc) any {
	from, err := x.k.Session(p.Session)
	if err != nil {
		return err
	}
	info, err := x.steward.Keep(from, []tracer.Identity{p.Identity}, "", rules.Kept{Reason: "lngtest"}, time.Now().Add(time.Hour))
	if err != nil {
		return err
	}
	x.kept[info.ID] = true
	return info.ID
}

func (x *sim) session() (tracer.SessionInfo, bool) {
	all := x.k.Records()
	if len(all) == 0 {
		return tracer.SessionInfo{}, false
	}
	return all[x.rnd.IntN(len(all))], true
}

func (x *sim) end() string {
	s, ok := x.session()
	if !ok {
		return "none"
	}
	x.asked[s.ID] = true
	grace := time.Duration(x.rnd.IntN(2)) * time.Second
	found := x.findable(s.ID)
	err := x.e.End(s.ID, tracer.CauseEnd, grace)
	if err == nil {
		x.found = append(x.found, found...)
	}
	return fmt.Sprint(s.ID, " ", grace, " ", err)
}

// findable are the children of live members of a session whose births were missed, if the kernel answers. An end finds them.
func (x *sim) findable(id tracer.SessionID) (all []tracer.Identity) {
	synctest.Wait()
	for p, in := range x.missed {
		q := x.k.Proc(p.PID)
		if in != id || x.refusing || q == nil || q.Identity != p || q.Dead || q.Session != 0 || q.Entered {
			continue
		}
		if up := x.k.Proc(q.Parent.PID); up != nil && up.Identity == q.Parent && !up.Dead && up.Session == id {
			all = append(all, p)
		}
	}
	return all
}

func (x *sim) dissolve() string {
	s, ok := x.session()
	if !ok {
		return "none"
	}
	x.mu.Lock()
	x.let[s.ID] = true
	x.mu.Unlock()
	if _, err := x.k.Dissolve(s.ID); err != nil {
		x.mu.Lock()
		x.let[s.ID] = s.State == tracer.StateDissolved
		x.mu.Unlock()
		return "refused"
	}
	_ = x.r.Update(func(tx registry.Tx) { tx.LetGo(s.ID) })
	return s.ID.String()
}

func (x *sim) pause() string {
	d := []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}[x.rnd.IntN(4)]
	x.rest(d)
	return d.String()
}

// restart ends the daemon and starts the next one. What nobody saved is lost, so with limited faults it happens
// only while the kernel answers and the disk takes it.
func (x *sim) restart() string {
	if x.limited {
		x.heal("Release") // which nobody has to save
		x.rest(time.Second)
	}
	x.stop()
	for n := range 2 {
		if x.start() == nil {
			return fmt.Sprint("after ", n)
		}
		x.heal()
	}
	panic("no daemon starts, and nothing fails")
}
