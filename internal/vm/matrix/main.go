//go:build linux

// Matrix runs the tests under every kernel of its table of cells, each in a virtual
// machine of its own, and compares the results with what that kernel promises: the
// guarantee level, which tests may be skipped and why, what doctor prints, and no
// complaints of the kernel. Results go to testdata/vm/results, and from there to
// docs/results/kernels.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	kvm    bool
	update bool           // write doctor's golden files
	suites *regexp.Regexp // nil: all
	tests  string         // of the suites, instead of their own; the results are not kept
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	kernels := flag.String("kernel", "", "only the cells of these series: 6.1 7")
	only := flag.String("cell", "", "only the cells whose name this expression matches")
	suites := flag.String("suite", "", "only the suites that this expression matches; the others keep their results")
	arch := flag.String("arch", "", "the cells of this architecture, as Go calls it, empty: amd64")
	jobs := flag.Int("j", 1, "machines at a time")
	flag.BoolVar(&o.kvm, "kvm", false, "use KVM, do not emulate")
	flag.BoolVar(&o.update, "update", false, "write what doctor prints as what is expected")
	flag.StringVar(&o.tests, "run", "", "of the suites only the tests that this expression of go test matches, with this environment's LNGTEST_ variables; nothing is kept")
	pages := flag.Bool("pages", false, "only write docs/results/kernels.md from the results")
	check := flag.Bool("check", false, "only compare them with the results")
	flag.Parse()
	if *pages || *check {
		return keepPages(*pages)
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if o.suites, err = regexp.Compile(*suites); err != nil {
		return err
	}
	var chosen []*cell
	for i := range cells {
		c := &cells[i]
		if c.arch == *arch && match.MatchString(c.name) && (*kernels == "" ||
			slices.Contains(strings.Fields(*kernels), c.series)) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no cell for kernel %q, cell %q", *kernels, *only)
	}
	return runAll(chosen, *jobs, o)
}

// runAll runs cells, several at a time, and reports which of them failed.
func runAll(chosen []*cell, jobs int, o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	slots := make(chan struct{}, max(jobs, 1))
	for _, c := range chosen {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			r, cpu, err := c.run(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.Problems = append(r.Problems, err.Error())
			}
			report(r, time.Since(began), cpu)
			if len(r.problems()) > 0 {
				failed = append(failed, c.name)
			}
			if o.tests == "" && ctx.Err() == nil {
				if err := c.save(r); err != nil {
					failed = append(failed, err.Error())
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	if o.tests != "" {
		return nil
	}
	return keepPages(true)
}

func report(r *result, took, cpu time.Duration) {
	fmt.Printf("%s: Linux %s, level %d, %v, %v of a CPU\n", r.Cell, r.Release, r.Level,
		took.Round(time.Second), cpu.Round(time.Second))
	for _, s := range r.Suites {
		fmt.Printf("  %-22s %3d passed %3d failed %3d skipped, %d s\n", s.Name,
			s.Passed, s.Failed, len(s.Skips), s.Seconds)
	}
	for _, p := range r.problems() {
		fmt.Printf("  FAILED %s\n", strings.ReplaceAll(p, "\n", "\n    "))
	}
}
