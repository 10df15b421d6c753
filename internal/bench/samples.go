//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Samples are those of one run, by benchmark and unit, in the order in which they were
// taken, and the host they were taken on.
type samples struct {
	host   map[string]string
	values map[string][]float64 // "Name unit"
}

// load reads lines of Go's benchmark format.
func load(path string) (*samples, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &samples{host: map[string]string{}, values: map[string][]float64{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, isSample := strings.CutPrefix(lines.Text(), "Benchmark")
		if !isSample {
			if k, v, found := strings.Cut(lines.Text(), ": "); found && !strings.Contains(k, " ") && s.host[k] == "" {
				s.host[k] = strings.TrimSpace(v)
			}
			continue
		}
		fields := strings.Fields(name)
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: %q is no sample", path, lines.Text())
		}
		v, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		key := fields[0] + " " + fields[3]
		s.values[key] = append(s.values[key], v)
	}
	return s, lines.Err()
}

// A spread is over the same figure, taken several times.
type spread struct{ low, median, high float64 } // quartiles

func spreadOf(v []float64) spread {
	v = slices.Sorted(slices.Values(v))
	return spread{quantile(v, 0.25), quantile(v, 0.5), quantile(v, 0.75)}
}

// quantile interpolates between the two nearest values in v, which is sorted.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// pairs are the ratios of two series that were taken in turn.
func pairs(a, b []float64) []float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}

// scaled is each divided by unit.
func scaled(v []float64, unit float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] / unit
	}
	return out
}

// of is the figure as a cell: its median and quartiles, in units; "" if there are no samples.
func (s *samples) of(name string, unit float64) string {
	return cell(scaled(s.values[name], unit))
}

func cell(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	p := spreadOf(v)
	if len(v) == 1 {
		return plain(p.median)
	}
	return fmt.Sprintf("%s (%s–%s)", plain(p.median), plain(p.low), plain(p.high))
}

// plain is a number with three significant digits, thousands grouped.
func plain(v float64) string {
	switch a := max(v, -v); {
	case a >= 1000:
		return grouped(int64(v + 0.5))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
