//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/testdata/vm/boot"
	"github.com/lineage-ebpf/lineage/testdata/vm/guest"
)

const (
	kernelsDir = ".cache/kernels"
	logsDir    = ".cache/vm" // what the machines printed
	testsDir   = "bin/tests"
)

// run boots the cell's machine, runs everything in it and judges it. The
// result is never nil.
func (c *cell) run(ctx context.Context, o options) (*result, error) {
	r := &result{Cell: c.name, Why: c.why, Date: time.Now().UTC().Format(time.DateOnly), Verified: map[string]int{}}
	dir, err := filepath.EvalSymlinks(filepath.Join(kernelsDir, c.series))
	if err != nil {
		return r, err
	}
	r.Release = filepath.Base(dir)
	suites := c.suites
	if o.quick {
		suites = c.quick
	}
	image := boot.NewImage("bin/vminit")
	image.Checkout(".")
	m := boot.Machine{
		QEMU: o.qemu, KVM: o.kvm, Kernel: filepath.Join(dir, "vmlinuz"),
		CPUs: max(c.cpus, 1), MemoryMB: c.memory, Append: c.append, Timeout: time.Minute,
	}
	if m.Append == "" {
		m.Append = boot.LSM
	}
	if m.MemoryMB == 0 {
		m.MemoryMB = 1536
	}
	plan := guest.Plan{Cgroup: c.cgroup, PIDMax: c.pidMax, Jobs: c.doctorJobs()}
	for _, s := range suites {
		image.Checkout(".", s.dir)
		binary := filepath.Join(testsDir, strings.ReplaceAll(s.dir, "/", "_")+".test")
		image.File("tests/"+filepath.Base(binary), binary)
		plan.Jobs = append(plan.Jobs, s.job("/tests/"+filepath.Base(binary)))
	}
	for _, j := range plan.Jobs {
		m.Timeout += j.Timeout
	}
	initramfs, err := image.Build(plan)
	if err != nil {
		return r, err
	}
	booted, err := m.Run(ctx, initramfs)
	if booted == nil {
		return r, err
	}
	if saveErr := c.saveLogs(booted); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	c.judge(r, booted, suites, o)
	return r, err
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
		Env: append([]string{slow}, s.env...),
		// The test binary's own time-out says where it was.
		Timeout: s.timeout + time.Minute,
	}
}

// slow multiplies the patience of the tests: emulation is 10 to 20 times slower.
const slow = "LNGTEST_SLOW=6"

// judge compares what the machine did with what it has to do.
func (c *cell) judge(r *result, booted *boot.Result, suites []suite, o options) {
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	for _, line := range boot.Complaints(booted.Console) {
		problem("the kernel complains: %s", line)
	}
	byName := map[string]boot.Job{}
	for _, j := range booted.Jobs {
		byName[j.Name] = j
		for _, left := range j.Left {
			problem("%s left alive: %s", j.Name, left)
		}
	}
	c.judgeDoctor(r, byName, o.update, problem)
	for _, s := range suites {
		j, ran := byName[s.name()]
		if !ran {
			problem("%s was not run", s.name())
			continue
		}
		tests, err := readTests(j.Output)
		if err != nil {
			problem("%s: %v", s.name(), err)
		}
		for _, f := range tests.failures {
			problem("%s: %s", s.name(), f)
		}
		for _, k := range tests.skips {
			if text := unexcused(c, promised(r.Release), k); text != "" {
				problem("%s: %s", s.name(), text)
			}
		}
		switch {
		case j.Code == guest.TimedOut:
			problem("%s: out of time", s.name())
		case j.Code != 0 && tests.failed == 0:
			problem("%s: exit code %d:\n%s", s.name(), j.Code, tail(string(j.Output), 12))
		case tests.passed == 0:
			problem("%s: nothing was tested:\n%s", s.name(), tail(string(j.Output), 12))
		}
		for name, n := range tests.verified {
			r.Verified[name] = n
		}
		r.Figures = append(r.Figures, tests.figures...)
		r.Suites = append(r.Suites, suiteResult{
			Name: s.name(), Passed: tests.passed, Failed: tests.failed, Skips: tests.skips, Seconds: int(j.Took.Seconds()),
		})
	}
}

// saveLogs keeps the console and the jobs' output of the cell's last run.
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

// fileName is a cell's or job's name without what has a meaning in a path.
func fileName(name string) string {
	return strings.NewReplacer("/", "_", " ", "_", "=", "_").Replace(name)
}
