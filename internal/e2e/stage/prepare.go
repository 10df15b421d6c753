//go:build linux

package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// FromEnv is what the tests of the kernel side have, too.
var FromEnv = tracertest.FromEnv

// Built by "make build programs".
var Lineage, programs string

// top is the top of the checkout.
var top string

// OnlyFrom ends a test binary that its make target did not start, with one line and exit code 0.
func OnlyFrom(target string) {
	if os.Getenv("LNGTEST") == "" {
		fmt.Printf("skipped: LNGTEST is not set; run make %s\n", target)
		os.Exit(0)
	}
}

// Begin is OnlyFrom and Prepare. It ends the test binary if that fails.
func Begin(target, root string) {
	OnlyFrom(target)
	if err := Prepare(root); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
		os.Exit(1)
	}
}

// Prepare finds what make built under root, the top of the checkout. It refuses
// to run where a test could leave something behind.
func Prepare(root string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root; run make test-e2e with sudo")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/bpf", &fs); err != nil || fs.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("no bpffs at /sys/fs/bpf; run make test-e2e")
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	if host, err := os.Readlink("/proc/1/ns/mnt"); err == nil && ours == host {
		return fmt.Errorf("in the host's mount namespace; run make test-e2e")
	}
	if top, err = filepath.Abs(root); err != nil {
		return err
	}
	bin := filepath.Join(top, "bin")
	Lineage, programs = filepath.Join(bin, "lineage"), filepath.Join(bin, "testdata")
	for _, path := range []string{Lineage, Program("hop")} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w; run make build programs", err)
		}
	}
	return nil
}

// Program is the path of a test program.
func Program(name string) string { return filepath.Join(programs, "lngtest-"+name) }

// Argv is the path of a test program, and its arguments.
func Argv(command string) []string {
	words := strings.Fields(command)
	return append([]string{Program(words[0])}, words[1:]...)
}
