//go:build linux

// Bench measures what lineage costs. It measures each figure several times, in turn
// with what it is compared with, and prints one line of Go's benchmark format for each
// sample, for benchstat. With -page it writes the tables of BENCHMARKS.md.
// It runs as root in a mount namespace with a bpffs of its own, see testdata/bpffs.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/page"
)

// A part is what BENCH selects.
type part struct {
	name string
	run  func(context.Context, *report, *kernel) error
	of   string // the benchmark in its table; "" for no table
	rows string // the key of the table's rows
	unit string
}

// In the order in which they run: those that most need a quiet machine come first.
var parts = []part{
	{"hooks", hooks, "Events", "event", "ns"},
	{"count", count, "Count", "load", "ns"},
	{"signals", signals, "", "", ""},
	{"traces", traces, "", "", ""},
	{"kill", kill, "Kill", "members", "ms"},
	{"pass", pass, "Pass", "processes", "ms"},
	{"cost", cost, "Cost", "command", "s"}, // it takes long: only by its name
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("bench", "", "only the parts that this expression matches: hooks, count, signals, traces, kill, pass, cost")
	older := flag.String("old", "", "compare bin/lineage with this older binary, and nothing else")
	pages := flag.Bool("page", false, "write the tables of what was measured into BENCHMARKS.md")
	flag.Parse()
	choose, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if err := prepare(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if *older != "" {
		return compareBuilds(ctx, *older)
	}
	r := &report{out: os.Stdout, values: map[string][]float64{}}
	host, err := r.host()
	if err != nil {
		return err
	}
	write := func(name, text string) error {
		if !*pages {
			return nil
		}
		return page.Write("BENCHMARKS.md", name, text)
	}
	if *only == "" {
		if err := write("host", host); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if !choose.MatchString(p.name) || p.name == "cost" && *only == "" {
			continue
		}
		began := time.Now()
		if err := p.measure(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s: %.0f s\n", p.name, time.Since(began).Seconds())
		if p.of == "" {
			continue
		}
		if err := write(p.name, r.table(p.of, p.rows, p.unit)); err != nil {
			return err
		}
	}
	return nil
}

// measure runs a part, with a kernel side of its own; cost has lineage's.
func (p *part) measure(ctx context.Context, r *report) (failed error) {
	if p.name == "cost" {
		return p.run(ctx, r, nil)
	}
	k, err := trace()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, k.close()) }()
	return p.run(ctx, r, k)
}

// prepare refuses to run where it could leave something behind.
func prepare() error {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	if host, err := os.Readlink("/proc/1/ns/mnt"); err == nil && ours == host {
		return fmt.Errorf("in the host's mount namespace; run make bench")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	return os.Setenv("LNGTEST_SECONDS", "300") // the deadline of all programs that are started here
}

const lineageBin = "bin/lineage"

func program(name string) string { return "bin/testdata/lngtest-" + name }

// roomFor fails if n more processes would leave too little room for others on this host.
func roomFor(n int) error {
	const reserve = 4000
	var limit, tasks int
	most, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	load, _ := os.ReadFile("/proc/loadavg") // "… running/all last"
	_, all, _ := strings.Cut(string(load), "/")
	if _, err := fmt.Sscan(string(most)+all, &limit, &tasks); err != nil {
		return fmt.Errorf("read pid_max and loadavg: %w", err)
	}
	if tasks+n+reserve > limit {
		return fmt.Errorf("no room for %d processes beside the %d that there are", n, tasks)
	}
	return nil
}
