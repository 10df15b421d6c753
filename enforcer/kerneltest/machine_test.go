//go:build linux

package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/protocol"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

const agent = "lngtest-agent"

// pair is the same host twice: made of Go here, and of the steps of the protocol.
type pair struct {
	k     *Kernel
	m     *protocol.Host
	procs []tracer.Identity // by the machine's number
	ids   []tracer.SessionID
	log   []string
}

func (p *pair) act(name string, arg int) error {
	before := p.k.nextSlot
	switch bad, ok := p.m.Do(name, arg); {
	case bad != "":
		return fmt.Errorf("the machine: %s", bad)
	case !ok:
		return nil
	}
	p.log = append(p.log, fmt.Sprint(name, " ", arg))
	k, all := p.k, p.m.Processes()
	var who tracer.Identity
	var id tracer.SessionID
	if arg < len(p.procs) {
		who = p.procs[arg]
	}
	if arg < len(p.ids) {
		id = p.ids[arg]
	}
	switch name {
	case "outsider", "missed fork", "fork":
		x, comm := uint32(100+all[len(all)-1].PID), k.procs[who.PID].Comm.String()
		if name == "fork" {
			k.Fork(who.PID, x, comm)
		} else {
			k.Add(x, who.PID, comm)
		}
		k.procs[x].Unreaped = true
		p.procs = append(p.procs, k.procs[x].Identity)
	case "exec":
		k.Become(who.PID, agent)
	case "exit":
		k.Exit(who.PID, 0)
	case "reap":
		k.Reap(who.PID)
	case "protect":
		_ = k.Protect(who.PID)
	case "create":
		_, _ = k.Create(tracer.SessionSpec{Root: who})
	case "keep":
		from := k.procs[who.PID].Session
		if id, err := k.Create(tracer.SessionSpec{Root: who, KeptFrom: from}); err == nil {
			_, _ = k.Follow(from, id)
		}
	case "end":
		_ = k.End(id, tracer.CauseEnd, 0)
	case "end with grace":
		_ = k.End(id, tracer.CauseEnd, time.Hour)
	case "deadline":
		k.sessions[id].Deadline = 1
		_, _ = k.Sentence()
	case "dissolve":
		_, _ = k.Dissolve(id)
	case "settle":
		_, _ = k.Settle(id)
	case "release":
		_ = k.Release(id)
	case "reconcile":
		_, _, _ = k.Reconcile()
	case "take over": // the next daemon protects its own
		for _, x := range k.procs {
			x.Flags &^= tracer.FlagProtected
			x.Entered = x.Session != 0
		}
	}
	for n := len(p.ids); n <= len(p.m.Sessions()); n++ {
		p.ids = append(p.ids, ^tracer.SessionID(0)) // one that could not be opened
		if k.nextSlot > before {
			p.ids[n] = k.id()
		}
	}
	return p.differ()
}

// differ compares all processes and sessions. Of what is gone nothing is held.
func (p *pair) differ() error {
	for n, want := range p.m.Processes() {
		who := p.procs[n+1]
		got := protocol.Process{Stage: "gone", PID: want.PID}
		if want.Parent, want.Terms = 0, 0; want.Stage == "gone" {
			want = got
		}
		if x := p.k.procs[who.PID]; x != nil && x.Identity == who {
			got.Stage, got.Session = "running", slices.Index(p.ids, x.Session)
			got.Signalled = x.Flags&(tracer.FlagKilled|tracer.FlagTermed) != 0
			if got.Protected, got.Root = x.Flags&tracer.FlagProtected != 0, x.Flags&tracer.FlagRoot != 0; x.Dead {
				got.Stage, got.Protected, got.Root = "zombie", false, false
			}
		}
		if got != want {
			return fmt.Errorf("process %d is %+v, of the machine %+v", n+1, got, want)
		}
	}
	for n, want := range p.m.Sessions() {
		var got protocol.Session
		if s := p.k.sessions[p.ids[n+1]]; s != nil {
			got = protocol.Session{
				State: int(s.State), Parent: slices.Index(p.ids, s.Parent), Root: slices.Index(p.procs, s.Root), Nested: int(s.Nested),
				Live: int(s.Live), Dying: int(s.Dying), Unreaped: int(s.Unreaped), Forks: int(s.Forks),
			}
		}
		if got != want {
			return fmt.Errorf("session %d is %+v, of the machine %+v", n+1, got, want)
		}
	}
	return nil
}

const rooms = 3

// next picks an action that the machine can take, "": none.
func (p *pair) next(rnd *rand.Rand) (name string, arg int) {
	did := func(name string) bool {
		return slices.ContainsFunc(p.log, func(x string) bool { return strings.HasPrefix(x, name) })
	}
	pick := func(names string) string {
		all := strings.Split(names, ", ")
		return all[rnd.IntN(len(all))]
	}
	procs, sessions := p.m.Processes(), p.m.Sessions()
	switch n := rnd.IntN(20); {
	case n == 0:
		return "reconcile", 0
	case n == 1 && !did("take over"):
		return "take over", 0
	case n < 4 || len(procs) == 0:
		return "outsider", 0
	case n < 10 && len(sessions) > 0:
		arg, name = 1+rnd.IntN(len(sessions)), pick("end, end with grace, deadline, dissolve, settle, settle, release")
		if s := sessions[arg-1]; s.State == 0 || name == "deadline" && s.State != int(tracer.StateEnding) {
			return "", 0
		}
		return name, arg
	}
	arg, name = 1+rnd.IntN(len(procs)), pick("fork, fork, missed fork, exec, exit, reap, create, keep, protect")
	stage, opens := procs[arg-1].Stage, name == "exec" || name == "create" || name == "keep"
	// The machine promises the children of a process that is kept, missed births or not.
	if stage != "running" && (stage != "zombie" || name != "reap") || stage == "running" && name == "reap" ||
		opens && len(sessions) == rooms || name == "keep" && did(fmt.Sprint("missed fork ", arg)) {
		return "", 0
	}
	return name, arg
}

// TestMachine: this kernel and the machine agree on every process and every session after each step of random
// sequences.
func TestMachine(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(tracertest.FromEnv(t, "LNGTEST_SEEDS", 500)) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		p := &pair{k: New(), m: protocol.NewHost(4, rooms, 0), procs: []tracer.Identity{{PID: 1}}, ids: []tracer.SessionID{0}}
		p.k.asked.Agents = []tracer.Agent{{Comm: agent, Nests: true}}
		for range 60 {
			name, arg := p.next(rnd)
			if name == "" {
				continue
			}
			if err := p.act(name, arg); err != nil {
				t.Fatalf("seed %d: %v, after:\n%s", seed, err, strings.Join(p.log, "\n"))
			}
		}
		for _, x := range p.log {
			seen[x[:strings.LastIndex(x, " ")]]++
		}
	}
	t.Logf("figure: %v", seen)
}
