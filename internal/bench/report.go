//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/page"
)

// A report writes the samples, and makes tables of them.
type report struct {
	out    io.Writer
	names  []string // "Name unit", in the order in which they came
	values map[string][]float64
}

// host says where the samples were taken: as benchstat's configuration lines, and as a sentence.
func (r *report) host() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-") // the rest is the builder's
	cpu, load, date := fieldOf("/proc/cpuinfo",
		"model name"), strings.Fields(string(text))[0], time.Now().UTC().Format(time.DateOnly)
	var kb float64
	_, _ = fmt.Sscan(fieldOf("/proc/meminfo", "MemTotal"), &kb) // it is there
	fmt.Fprintf(r.out, "goos: %s\ngoarch: %s\nkernel: %s\ncpu: %s\n", runtime.GOOS,
		runtime.GOARCH, version, cpu)
	return fmt.Sprintf("%s, %d CPUs, %.0f GiB, kernel %s, %s; the load average was %s before it began.\n",
		cpu, runtime.NumCPU(), kb/(1<<20), version, date, load), nil
}

// fieldOf is the first value with that name in a file of "name: value" lines.
func fieldOf(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if k, v, found := strings.Cut(line, ":"); found && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// sample writes one measurement of n repetitions, as one line of Go's benchmark format.
func (r *report) sample(name string, n uint64, value float64, unit string) {
	fmt.Fprintf(r.out, "Benchmark%s %d %.6g %s\n", name, n, value, unit)
	name += " " + unit
	if r.values[name] == nil {
		r.names = append(r.names, name)
	}
	r.values[name] = append(r.values[name], value)
}

// took is a sample of one repetition.
func (r *report) took(name string, d time.Duration) {
	r.sample(name, 1, float64(d.Nanoseconds()), "ns/op")
}

// table has a row for each value of the key in a benchmark's names, and columns by the other values: of
// times in that unit, and of ratios. Names have _ for a blank.
func (r *report) table(of, key, unit string) string {
	per := map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
	var rows, heads []string
	cells := map[string]string{}
	for _, name := range r.names {
		name, is, _ := strings.Cut(name, " ")
		parts := strings.Split(name, "/")
		if parts[0] != of || is != "ns/op" && is != "ratio" {
			continue
		}
		var row string
		var head []string
		for _, part := range parts[1:] {
			k, v, _ := strings.Cut(strings.ReplaceAll(part, "_", " "), "=")
			if k == key {
				row = v
			} else {
				head = append(head, v)
			}
		}
		by := 1.0
		if is == "ns/op" {
			by, head = per, append(head, unit)
		}
		column := strings.Join(head, ", ") + ":"
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(heads, column) {
			heads = append(heads, column)
		}
		cells[row+column] = cell(r.values[name+" "+is], by)
	}
	t := page.NewTable(append([]string{key}, heads...)...)
	for _, row := range rows {
		line := []string{row}
		for _, head := range heads {
			line = append(line, cells[row+head])
		}
		t.Row(line...)
	}
	return t.String()
}

// cell has the median of the values and their quartiles, divided by a unit.
func cell(v []float64, per float64) string {
	return fmt.Sprintf("%s (%s–%s)", plain(quantile(v, 0.5)/per),
		plain(quantile(v, 0.25)/per), plain(quantile(v, 0.75)/per))
}

// quantile interpolates between the two nearest values.
func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// plain is a number with three significant digits, or all before the point.
func plain(v float64) string {
	if v <= 0 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.*f", max(0, min(2, 2-int(math.Floor(math.Log10(v))))), v)
}
