//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A report writes the samples.
type report struct{ out io.Writer }

// host says where the samples were taken, as benchstat's configuration lines.
func (r *report) host() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH)
	version, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-") // the rest is the builder's
	fmt.Fprintf(r.out, "kernel: %s\n", version)
	if model := fieldOf("/proc/cpuinfo", "model name"); model != "" {
		fmt.Fprintf(r.out, "cpu: %s\n", model)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "cpus: %d\nmemory: %s\ndate: %s\nload: %s\n",
		runtime.NumCPU(), fieldOf("/proc/meminfo", "MemTotal"), time.Now().UTC().Format(time.DateOnly), strings.Fields(string(load))[0])
	return nil
}

// fieldOf is the first value with that name in a file of "name: value" lines.
func fieldOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if k, v, found := strings.Cut(line, ":"); found && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// sample writes one measurement of n repetitions, as one line of Go's benchmark format.
// Names that are compared with each other are written in turn, so that their i-th
// samples are a pair.
func (r *report) sample(name string, n uint64, value float64, unit string) {
	fmt.Fprintf(r.out, "Benchmark%s %d %.6g %s\n", name, n, value, unit)
}

// took is a sample of one repetition.
func (r *report) took(name string, d time.Duration) {
	r.sample(name, 1, float64(d.Nanoseconds()), "ns/op")
}
