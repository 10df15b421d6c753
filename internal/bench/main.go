//go:build linux

// Bench measures what lineage costs. It measures each figure several times, in turn
// with what it is compared with, and prints one line of Go's benchmark format for each
// sample. benchstat reads them, and -page makes the tables of BENCHMARKS.md from them.
// It runs as root in a mount namespace with a bpffs of its own, see testdata/bpffs.sh.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A part is what BENCH selects.
type part struct {
	name string
	does string
	run  func(context.Context, *report) error
}

// In the order in which they run: those that most need a quiet machine come first.
var parts = []part{
	{"hooks", "kernel time per event", hooks},
	{"joins", "an outsider's exec with and without a rule for containers", joins},
	{"signals", "kernel time per signal", signals},
	{"kill", "end against cgroup.kill", kill},
	{"dead", "root's exit while the daemon is dead, until the last member is", dead},
	{"halt", "a halt of many sessions, against cgroup.kill", halt},
	{"growth/processes", "kernel cost against live processes", grow(amongProcesses)},
	{"growth/sessions", "kernel cost against sessions", grow(amongSessions)},
	{"growth/depth", "kernel cost against ancestors", grow(amongAncestors)},
	{"scale", "answers, ends, a new daemon and memory against sessions of 100 processes", scale},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("bench", "", "only the parts that this expression matches")
	list := flag.Bool("list", false, "list the parts")
	older := flag.String("old", "", "compare bin/lineage with this older binary, and nothing else")
	raw := flag.String("page", "", "write the tables of BENCHMARKS.md from the samples in this file")
	counts := flag.String("live", "100 1000 10000 20000", "among how many live processes growth is measured, in ascending order")
	flag.Parse()
	for word := range strings.FieldsSeq(*counts) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		live = append(live, n)
	}
	if *raw != "" {
		return writePages(*raw)
	}
	choose, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *list {
		for _, p := range parts {
			fmt.Printf("%-18s%s\n", p.name, p.does)
		}
		return nil
	}
	if err := prepare(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if *older != "" {
		return compareBuilds(ctx, *older)
	}
	r := &report{out: os.Stdout}
	if err := r.host(); err != nil {
		return err
	}
	for _, p := range parts {
		if !choose.MatchString(p.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(os.Stderr, "bench: %s: %s\n", p.name, p.does)
		if err := p.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s: %.0f s\n", p.name, time.Since(began).Seconds())
	}
	return nil
}

// prepare refuses to run where it could leave something behind.
func prepare() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root; run make bench with sudo")
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	if host, err := os.Readlink("/proc/1/ns/mnt"); err == nil && ours == host {
		return fmt.Errorf("in the host's mount namespace; run make bench")
	}
	for _, path := range []string{lineageBin, program("pulse"), program("crowd"), program("vforkstorm")} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w; run make bench", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	// The deadline of all programs that are started here; an emulated host needs a longer one.
	if os.Getenv("LNGTEST_SECONDS") != "" {
		return nil
	}
	return os.Setenv("LNGTEST_SECONDS", "300")
}

// live are the numbers of processes among which growth is measured. pid_max bounds them,
// which is 32,768 unless it was raised.
var live []int

const lineageBin = "bin/lineage"

func program(name string) string { return "bin/testdata/lngtest-" + name }

// roomFor fails if n more processes would leave too little room for others on this host.
func roomFor(n int) error {
	const reserve = 4000
	var limit, tasks int
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(text), &limit); err != nil {
		return fmt.Errorf("read pid_max: %w", err)
	}
	if text, err = os.ReadFile("/proc/loadavg"); err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "/") // "… running/all last"
	if _, err := fmt.Sscan(rest, &tasks); err != nil {
		return fmt.Errorf("read loadavg: %w", err)
	}
	if tasks+n+reserve > limit {
		return fmt.Errorf("no room for %d processes beside the %d that there are", n, tasks)
	}
	return nil
}
