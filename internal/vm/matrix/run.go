//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/internal/vm/boot"
	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

const (
	kernelsDir = ".cache/kernels"
	armDir     = ".cache/arm64" // kernels and QEMU
	logsDir    = ".cache/vm"    // what the machines printed
	binDir     = "bin"
)

// places are the paths of the cell's kernels, its QEMU and what is built for it.
func (c *cell) places() (kernels, qemu, bin string) {
	if c.arch == "arm64" {
		return armDir, filepath.Join(armDir, "qemu-system-aarch64"), filepath.Join(binDir, c.arch)
	}
	return kernelsDir, ".cache/qemu/qemu-system-x86_64", binDir
}

// run boots the cell's machine, runs everything in it and judges it. The result is
// never nil; cpu is the host CPU time that the machine used.
func (c *cell) run(ctx context.Context, o options) (r *result, cpu time.Duration, err error) {
	r = &result{Cell: c.name, Why: c.why}
	kernels, qemu, bin := c.places()
	dir, err := filepath.EvalSymlinks(filepath.Join(kernels, c.series))
	if err != nil {
		return r, 0, err
	}
	r.Release = filepath.Base(dir)
	suites := c.chosen(o)
	image := boot.NewImage(bin)
	image.Checkout()
	m := boot.Machine{
		QEMU: qemu, Arch: c.arch, KVM: o.kvm, Kernel: filepath.Join(dir, "vmlinuz"),
		CPUs: max(c.cpus, 1), MemoryMB: cmp.Or(c.memory, 1536),
		Append: cmp.Or(c.append, boot.LSM), Timeout: time.Minute,
	}
	plan := guest.Plan{Cgroup: c.cgroup, Proc: c.proc, PIDMax: c.pidMax, Jobs: doctorJobs()}
	for _, s := range suites {
		image.Checkout(s.dir)
		image.Programs(s.needs...)
		binary := filepath.Join(bin, "tests", strings.ReplaceAll(s.dir, "/", "_")+".test")
		image.File("tests/"+filepath.Base(binary), binary)
		plan.Jobs = append(plan.Jobs, s.job("/tests/"+filepath.Base(binary)))
	}
	for _, j := range plan.Jobs {
		m.Timeout += j.Timeout
	}
	initramfs, err := image.Build(plan)
	if err != nil {
		return r, 0, err
	}
	booted, err := m.Run(ctx, initramfs)
	if booted == nil {
		return r, 0, err
	}
	err = errors.Join(err, c.saveLogs(booted))
	c.judge(r, booted, suites, o)
	return r, booted.CPU, err
}

func (s suite) job(program string) guest.Job {
	args := []string{program, "-test.v=test2json", "-test.timeout=" + s.timeout.String()}
	if s.only != "" {
		args = append(args, "-test.run="+s.only)
	}
	if s.except != "" {
		args = append(args, "-test.skip="+s.except)
	}
	return guest.Job{
		Name: s.name(), Dir: filepath.Join(guest.Root, s.dir), Args: args,
		Env: append(slices.Clone(s.env), byMake, slow), // the first of two counts
		// The test binary's own timeout shows where it was.
		Timeout: s.timeout + time.Minute,
	}
}

// slow multiplies the patience of the tests: emulation is 10 to 20 times slower.
const slow = "LNGTEST_SLOW=6"

// byMake makes the packages of internal/e2e run their tests; without it they skip them.
const byMake = "LNGTEST=1"

// judge compares what the machine did with what it must do.
func (c *cell) judge(r *result, booted *boot.Result, suites []suite, o options) {
	problem := func(format string, args ...any) {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
	for _, line := range boot.Complaints(booted.Console) {
		problem("the kernel complains: %s", line)
	}
	byName := map[string]boot.Job{}
	for _, j := range booted.Jobs {
		byName[j.Name] = j
	}
	c.judgeDoctor(r, byName, o.update, problem)
	for _, s := range suites {
		r.Suites = append(r.Suites, c.judgeSuite(r, s, byName))
	}
}

func (c *cell) judgeSuite(r *result, s suite, jobs map[string]boot.Job) suiteResult {
	sum := suiteResult{Name: s.name(), Date: time.Now().UTC().Format(time.DateOnly)}
	problem := func(format string, args ...any) {
		sum.Problems = append(sum.Problems, fmt.Sprintf(format, args...))
	}
	j, ran := jobs[s.name()]
	if !ran {
		problem("not run")
		return sum
	}
	for _, left := range j.Left {
		problem("left alive: %s", left)
	}
	tests, err := readTests(j.Output)
	if err != nil {
		problem("%v", err)
	}
	for _, f := range tests.failures {
		problem("%s", f)
	}
	for _, k := range tests.skips {
		if text := unexcused(c, promised(r.Release), k); text != "" {
			problem("%s", text)
		}
	}
	switch {
	case j.Code == guest.TimedOut:
		problem("out of time")
	case j.Code != 0 && tests.failed == 0:
		problem("exit code %d:\n%s", j.Code, tail(string(j.Output), 12))
	case tests.passed+tests.failed == 0:
		problem("nothing was tested:\n%s", tail(string(j.Output), 12))
	}
	sum.Passed, sum.Failed, sum.Skips = tests.passed, tests.failed, tests.skips
	sum.Seconds = int(j.Took.Seconds())
	return sum
}

// chosen are the suites of the cell that the options select.
func (c *cell) chosen(o options) []suite {
	var chosen []suite
	for _, s := range c.suites {
		if o.suites == nil || o.suites.MatchString(s.name()) {
			if o.tests != "" {
				s.only, s.except = o.tests, ""
				s.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, "LNGTEST_") }), s.env...)
			}
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// saveLogs stores the console and the jobs' output of the cell's last run.
func (c *cell) saveLogs(b *boot.Result) error {
	dir := filepath.Join(logsDir, fileName(c.name))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(dir, "console"), b.Console, 0o644)
	for _, j := range b.Jobs {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, fileName(j.Name)), j.Output, 0o644))
	}
	return err
}

// fileName is a cell's or job's name without the characters that are special in a path.
func fileName(name string) string {
	return strings.NewReplacer("/", "_", " ", "_", "=", "_").Replace(name)
}
