//go:build linux

// Vmrun runs a static program as root under another kernel and exits with its code, so
// that go test can use it:
//
//	CGO_ENABLED=0 go test -exec "$PWD/bin/vmrun -kernel $PWD/.cache/kernels/6.1" ./tracer
//
// The guest has bin/lineage and bin/testdata of the checkout, the package's testdata,
// and some tools of this system. Exit code 120: the machine could not be set up; 121:
// the guest did not finish, and its console is shown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/internal/vm/boot"
	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

const (
	exitSetup      = 120
	exitUnfinished = 121
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmrun:", err)
	}
	os.Exit(code)
}

func run() (int, error) {
	m := boot.Machine{}
	plan := guest.Plan{}
	flag.StringVar(&m.QEMU, "qemu", "", "QEMU program; empty: the one that make vm found")
	flag.BoolVar(&m.KVM, "kvm", false, "use KVM, do not emulate")
	kernel := flag.String("kernel", "", "directory of a kernel: vmlinuz, or a link to it")
	flag.IntVar(&m.CPUs, "smp", 1, "CPUs")
	flag.IntVar(&m.MemoryMB, "m", 1024, "memory in MiB")
	flag.StringVar(&m.Append, "append", boot.LSM, "more of the kernel's command line")
	flag.DurationVar(&m.Timeout, "timeout", 10*time.Minute, "of the whole machine")
	flag.StringVar(&plan.Cgroup, "cgroup", "v2", "v1 or v2")
	flag.IntVar(&plan.PIDMax, "pid-max", 0, "kernel.pid_max of the guest")
	console := flag.Bool("console", false, "show the kernel's console")
	pass := flag.String("env", "LNGTEST", "prefix of the variables that the program gets")
	flag.Parse()
	if *kernel == "" || flag.NArg() == 0 {
		return exitSetup, errors.New("usage: vmrun -kernel DIR [flags] PROGRAM [ARGS]")
	}
	dir, err := filepath.EvalSymlinks(*kernel)
	if err != nil {
		return exitSetup, err
	}
	m.Kernel = filepath.Join(dir, "vmlinuz")
	root, at, err := checkout()
	if err != nil {
		return exitSetup, err
	}
	if m.QEMU == "" {
		m.QEMU = filepath.Join(root, ".cache/qemu/qemu-system-x86_64")
	}
	program := flag.Arg(0)
	if program, err = filepath.Abs(program); err != nil {
		return exitSetup, err
	}
	image := boot.NewImage(filepath.Join(root, "bin"))
	image.Checkout(root, at)
	image.File("test/program", program)
	job := guest.Job{Name: "program", Dir: filepath.Join(guest.Root, at), Args: append([]string{"/test/program"}, flag.Args()[1:]...), Timeout: m.Timeout}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, *pass) {
			job.Env = append(job.Env, v)
		}
	}
	plan.Jobs = []guest.Job{job}
	initramfs, err := image.Build(plan)
	if err != nil {
		return exitSetup, err
	}
	r, err := m.Run(context.Background(), initramfs)
	if r == nil {
		return exitSetup, err
	}
	if *console || err != nil {
		os.Stderr.Write(r.Console)
	}
	for _, j := range r.Jobs {
		os.Stdout.Write(j.Output)
	}
	if err != nil {
		return exitUnfinished, err
	}
	ran := r.Jobs[0]
	for _, left := range ran.Left {
		fmt.Fprintln(os.Stderr, "vmrun: left alive:", left)
	}
	for _, line := range boot.Complaints(r.Console) {
		fmt.Fprintln(os.Stderr, "vmrun: the kernel complained:", line)
	}
	return ran.Code, nil
}

// checkout returns the root of this module and the current directory in it.
func checkout() (root, at string, err error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for root = wd; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			at, err = filepath.Rel(root, wd)
			return root, at, err
		}
		if root == "/" {
			return "", "", fmt.Errorf("%s is in no checkout", wd)
		}
	}
}
