//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// A load is how often something happens: caches are cold when it is rare.
type load struct {
	name  string
	count int
	pause time.Duration
}

var loads = []load{
	{"busy", 2000, 0},
	{"idle", 60, 3 * time.Millisecond},
}

// events are what the programs of a hook do, and the empty program whose time is not theirs.
var events = []struct {
	name, empty string
	programs    []string
}{
	{"fork", "none_fork", []string{"fork_birth", "fork_sentence"}},
	{"exec", "none_exec", []string{"exec_event", "exec_sentence"}},
	{"exit", "none_exit", []string{"exit_death", "exit_sentence"}},
	{"reaped", "none_free", []string{"free_reaped"}},
}

// pulses has do measure processes: outsiders, and as many members.
func pulses(ctx context.Context, k *kernel, each int,
	do func(teams map[string][]*worker) error) (failed error) {
	teams := map[string][]*worker{}
	for range each {
		for _, who := range []string{"outsider", "member"} {
			w, err := start(ctx, -1, "pulse")
			if err != nil {
				return err
			}
			defer w.stop()
			teams[who] = append(teams[who], w)
			if who == "outsider" {
				continue
			}
			id, err := k.session(w)
			if err != nil {
				return err
			}
			defer func() { w.stop(); failed = errors.Join(failed, k.release(id)) }()
		}
	}
	return do(teams)
}

// hooks: two processes exec a program, with and without a pause; outsiders and members take turns.
func hooks(ctx context.Context, r *report, k *kernel) error {
	return pulses(ctx, k, 2, func(teams map[string][]*worker) error {
		for range 10 {
			for _, load := range loads {
				for _, who := range []string{"outsider", "member"} {
					name := "/who=" + who + "/load=" + load.name
					ns, err := k.during(r, "Hooks"+name, teams[who], "exec", load)
					if err != nil {
						return err
					}
					var all float64
					for _, e := range events {
						var sum float64
						for _, program := range e.programs {
							sum += ns[program] - ns[e.empty]
						}
						r.sample("Events"+name+"/event="+e.name, 1, sum, "ns/op")
						all += sum
					}
					r.sample("Events"+name+"/event=all_of_a_process", 1, all, "ns/op")
				}
			}
		}
		return nil
	})
}

// traces: outsiders and members as in hooks, with and without TRACEPARENT of agents' children wanted. The members' root is
// their agent, and they have no such variable, so the whole environment is read.
func traces(ctx context.Context, r *report, k *kernel) error {
	return pulses(ctx, k, 1, func(teams map[string][]*worker) error {
		for range 12 { // within the deadline of the pulses, 5 minutes
			for _, load := range loads {
				for who, team := range teams {
					name, ns := "Traces/who="+who+"/load="+load.name, map[bool]float64{}
					for _, wanted := range []bool{false, true} {
						k.SetTraces(wanted)
						all, err := k.during(r, fmt.Sprintf("%s/wanted=%v", name, wanted), team, "exec", load)
						if err != nil {
							return err
						}
						ns[wanted] = all["exec_event"] - all["none_exec"]
					}
					r.sample(name+"/by=wanted_:_not", 1, ns[true]/ns[false], "ratio")
				}
			}
		}
		return nil
	})
}

// count: members as in hooks, with programs that only count on the same tracepoints. Both sums have the statistics' own
// cost in them, as has the sum of the empty programs.
func count(ctx context.Context, r *report, k *kernel) error {
	return pulses(ctx, k, 2, func(teams map[string][]*worker) error {
		if err := k.count(); err != nil {
			return err
		}
		for range 20 {
			for _, load := range loads {
				name := "Count/load=" + load.name
				ns, err := k.during(r, name, teams["member"], "exec", load)
				if err != nil {
					return err
				}
				var hooks, counting, empty float64
				for _, e := range events {
					counting, empty = counting+ns["count_"+e.name], empty+ns[e.empty]
					for _, program := range e.programs {
						hooks += ns[program]
					}
				}
				r.sample(name+"/by=hooks", 1, hooks, "ns/op")
				r.sample(name+"/by=counting", 1, counting, "ns/op")
				r.sample(name+"/by=empty", 1, empty, "ns/op")
				r.sample(name+"/by=hooks_:_counting", 1, hooks/counting, "ratio")
			}
		}
		return nil
	})
}

// signals: an outsider and a member send themselves a signal that they handle: SIGUSR1, or SIGTERM, for which the hook
// has to know whether the process is a member; with a guard also the sender.
func signals(ctx context.Context, r *report, k *kernel) error {
	return pulses(ctx, k, 1, func(teams map[string][]*worker) error {
		for round := range 40 {
			guard := round%2 == 1
			k.SetGuard(tracer.Guarding{All: guard, Refuse: true})
			for _, load := range loads {
				for who, team := range teams {
					for _, kind := range []string{"signal", "ask"} {
						name := fmt.Sprintf("Signals/who=%s/kind=%s/guard=%v/load=%s",
							who, kind, guard, load.name)
						if _, err := k.during(r, name, team, kind, load); err != nil {
							return err
						}
					}
				}
			}
		}
		return nil
	})
}
