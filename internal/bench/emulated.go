//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/page"
)

// emulated reports whether the samples are from a machine that QEMU emulates. Its ns
// are not a CPU's: they stay out of the tables of figures.
func (s *samples) emulated() bool { return strings.HasPrefix(s.host["cpu"], "QEMU") }

// emulatedTables are about how figures grow.
func (s *samples) emulatedTables() []table {
	var all []table
	for name, text := range map[string]string{"emulated": s.shapeTable(), "scale": s.scaleTable()} {
		if text != "" {
			all = append(all, table{document, name + " host", s.machine()}, table{document, name, text})
		}
	}
	return all
}

// scaleTable shows what the daemon needs with many sessions, as multiples of what it needs
// with the fewest.
func (s *samples) scaleTable() string {
	sizes := s.sizesOf("Scale/", "live")
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable("sessions:", "processes:", "ls, ×:", "tree of one, ×:", "why, ×:", "end of one, ×:", "first picture, ×:", "new daemon, ×:", "RSS, MiB:")
	for _, n := range sizes {
		times := func(what string) string {
			of := func(n int) []float64 { return s.values[fmt.Sprintf("Scale/live=%d/do=%s ns/op", n, what)] }
			return multiple(of(n), of(sizes[0]))
		}
		rss := scaled(s.values[fmt.Sprintf("Daemon/live=%d B-rss", n)], 1<<20)
		t.Row(grouped(int64(n/scaleEach)), grouped(int64(n)), times("ls"), times("tree"), times("why"), times("end"),
			times("picture"), times("takeover"), cell(rss))
	}
	return t.String()
}

// shapeTable shows the cost among live processes as multiples of the cost among the
// fewest; where all of them are visited, per process.
func (s *samples) shapeTable() string {
	sizes := s.sizesOf("Growth/", "live")
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable("processes:", "fork, ×:", "exec, ×:", "exit, ×:", "reaped, ×:", "visits:", "a visit of the pass, ×:", "a process of the snapshot, ×:")
	for _, n := range sizes {
		name := func(of int, what string) []float64 { return s.values[fmt.Sprintf("Growth/live=%d/%s", of, what)] }
		hook := func(program string) string {
			what := "program=" + program + " ns/run"
			return multiple(name(n, what), name(sizes[0], what))
		}
		each := func(what string) string {
			of := func(n int) []float64 { return pairs(name(n, what+" ns/op"), name(n, what+" processes")) }
			return multiple(of(n), of(sizes[0]))
		}
		t.Row(grouped(int64(n)), hook("fork_birth"), hook("exec_event"), hook("exit_death"), hook("free_reaped"),
			median(name(n, "do=pass processes")), each("do=pass"), each("do=snapshot"))
	}
	return t.String()
}

// multiple is a cell with the samples v as multiples of the median of of.
func multiple(v, of []float64) string {
	if len(v) == 0 || len(of) == 0 {
		return ""
	}
	return cell(scaled(v, spreadOf(of).median))
}
