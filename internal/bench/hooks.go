//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// A load is how often something happens: caches are cold when it is rare.
var loads = []struct {
	name  string
	count int
	pause time.Duration
}{
	{"idle", 60, 3 * time.Millisecond},
	{"busy", 2000, 0},
}

// hooks: a process on each CPU execs a program, with and without a pause, and the
// kernel counts the time of each program (bpf_stats). Outsiders and members take turns.
// Then members on a host with such a large pid_max, as systemd sets it, that the memory
// of an entry is only allocated with the entry.
func hooks(ctx context.Context, r *report) error {
	if err := hooksOf(ctx, r, "stranger", "member"); err != nil {
		return err
	}
	return withPIDMax(4194304, func() error { return hooksOf(ctx, r, "large") })
}

func hooksOf(ctx context.Context, r *report, all ...string) (err error) {
	const rounds = 10
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	teams := map[string][]*worker{}
	for _, who := range all {
		for range 2 {
			w, err := start(ctx, -1, "pulse")
			if err != nil {
				return err
			}
			defer w.stop()
			teams[who] = append(teams[who], w)
			if who == "stranger" {
				continue
			}
			id, err := k.session(w)
			if err != nil {
				return err
			}
			defer func() { w.stop(); err = errors.Join(err, k.release(id)) }()
		}
	}
	for range rounds {
		for _, load := range loads {
			for _, who := range all {
				err := k.during(r, "Hooks/who="+who+"/load="+load.name, func() error { return together(teams[who], "exec", load.count, load.pause) })
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// signals: an outsider and a member send themselves a signal that they handle: SIGUSR1, or SIGTERM,
// for which the hook has to know whether the process is a member. With a guard it has to know that of
// the sender, too.
func signals(ctx context.Context, r *report) (err error) {
	const rounds = 20
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	teams := map[string]*worker{}
	for _, who := range []string{"stranger", "member"} {
		w, err := start(ctx, -1, "pulse")
		if err != nil {
			return err
		}
		defer w.stop()
		teams[who] = w
	}
	id, err := k.session(teams["member"])
	if err != nil {
		return err
	}
	defer func() { teams["member"].stop(); err = errors.Join(err, k.release(id)) }()
	for range rounds {
		for _, guard := range []string{"none", "all"} {
			k.SetGuard(tracer.Guarding{All: guard == "all", Refuse: true})
			for _, load := range loads {
				for who, w := range teams {
					for _, kind := range []string{"signal", "ask"} {
						err := k.during(r, "Signals/who="+who+"/kind="+kind+"/guard="+guard+"/load="+load.name, func() error { return w.do(kind, load.count, load.pause) })
						if err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// joins: an outsider execs, in pairs with and without a rule for containers: the kernel then looks whether the process was
// put into one.
func joins(ctx context.Context, r *report) (err error) {
	const rounds, less = 200, 4 // many short pairs: what else runs on the host is longer than one
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	w, err := start(ctx, -1, "pulse")
	if err != nil {
		return err
	}
	defer w.stop()
	for round := range rounds {
		for i := range 2 {
			rule := (i+round)%2 == 0 // in turn which is first
			k.SetJoins(rule, rule)
			for _, load := range loads {
				name, count := fmt.Sprintf("Joins/rule=%v/load=%s", rule, load.name), load.count/less
				var took time.Duration
				if err := k.during(r, name, func() (err error) { took, err = w.timed("exec", count, load.pause); return err }); err != nil {
					return err
				}
				r.sample(name, uint64(count), float64(took.Nanoseconds())/float64(count), "ns/op")
			}
		}
	}
	return nil
}

// withPIDMax makes our mount namespace show a limit other than the kernel's.
func withPIDMax(n int, do func() error) (err error) {
	const path = "/proc/sys/kernel/pid_max"
	f, err := os.CreateTemp("", "lngtest-pid_max")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, n)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := unix.Mount(f.Name(), path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount on %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(path, unix.MNT_DETACH)) }()
	return do()
}

// together makes all of them do something at once.
func together(team []*worker, kind string, count int, pause time.Duration) error {
	done := make(chan error, len(team))
	for _, w := range team {
		go func() { done <- w.do(kind, count, pause) }()
	}
	var errs []error
	for range team {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}
