//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/internal/page"
)

const document = "BENCHMARKS.md"

// A table is the text between the marks of that name in a document.
type table struct{ path, name, text string }

// writePages writes the samples' tables between the marks of the documents. A table of
// a part that was not run stays as it is.
func writePages(raw string) error {
	s, err := load(raw)
	if err != nil {
		return err
	}
	for _, t := range s.tables() {
		if t.text == "" {
			continue
		}
		if err := page.Write(t.path, t.name, t.text); err != nil {
			return err
		}
	}
	return nil
}

func (s *samples) tables() []table {
	growth := s.growthTable("live", "processes:")
	if s.emulated() {
		all := []table{{document, "emulated", growth}, {document, "scale", s.scaleTable()}}
		for _, t := range all {
			if t.text != "" {
				all = append(all, table{document, t.name + " host", s.machine()})
			}
		}
		return all
	}
	return []table{
		{document, "host", s.machine()},
		{document, "hooks", s.hookTable()},
		{document, "events", s.eventSums()},
		{document, "joins", s.joinsTable()},
		{document, "kill", s.killTable()},
		{document, "dead", s.deadTable()},
		{document, "halt", s.haltTable()},
		{document, "processes", growth},
		{document, "sessions", s.growthTable("sessions", "sessions:")},
		{document, "depth", s.growthTable("depth", "ancestors:")},
		{document, "memory", s.memoryTable()},
		{document, "cost", s.cost()},
	}
}

// emulated reports whether the samples are from a machine that QEMU emulates. Its ns are
// not a CPU's: its tables have multiples of the median at the smallest size.
func (s *samples) emulated() bool { return strings.HasPrefix(s.host["cpu"], "QEMU") }

func (s *samples) machine() string {
	memory, _, _ := strings.Cut(s.host["memory"], " ")
	kb, err := strconv.Atoi(memory)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s, %s CPUs, %.0f GiB, kernel %s, %s; the load average was %s before it began.\n",
		s.host["cpu"], s.host["cpus"], float64(kb)/(1<<20), s.host["kernel"], s.host["date"], s.host["load"])
}

// sizesOf are the values that a key has in the names with this prefix, in order.
func (s *samples) sizesOf(prefix, key string) []int {
	var all []int
	for name := range s.values {
		rest, found := strings.CutPrefix(name, prefix+key+"=")
		if !found {
			continue
		}
		digits := rest[:strings.IndexFunc(rest+"/", func(c rune) bool { return c < '0' || c > '9' })]
		if n, err := strconv.Atoi(digits); err == nil && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

var hookPrograms = []struct{ name, says, empty string }{
	{"fork_birth", "fork_birth", "none_fork"},
	{"fork_sentence", "fork_sentence", "none_fork"},
	{"exec_event", "exec_event, with seven arguments", "none_exec"},
	{"exec_sentence", "exec_sentence", "none_exec"},
	{"exit_death", "exit_death", "none_exit"},
	{"exit_sentence", "exit_sentence", "none_exit"},
	{"free_reaped", "free_reaped", "none_free"},
	{"none_fork", "an empty program on fork", ""},
	{"none_exec", "an empty program on exec", ""},
	{"none_exit", "an empty program on exit", ""},
	{"none_free", "an empty program on free", ""},
}

// The columns of the costs of hooks.
var hookColumns = []struct{ who, load, says string }{
	{"stranger", "busy", "outsider, busy:"},
	{"stranger", "idle", "outsider, idle:"},
	{"member", "busy", "member, busy:"},
	{"member", "idle", "member, idle:"},
	{"large", "busy", "large pid_max, busy:"},
	{"large", "idle", "large pid_max, idle:"},
}

func hookHeads(first string) []string {
	heads := []string{first}
	for _, c := range hookColumns {
		heads = append(heads, c.says)
	}
	return heads
}

func hookName(who, load, program string) string {
	return fmt.Sprintf("Hooks/who=%s/load=%s/program=%s ns/run", who, load, program)
}

func (s *samples) hookTable() string {
	if len(s.values[hookName("member", "busy", "fork_birth")]) == 0 {
		return ""
	}
	t := page.NewTable(hookHeads("program, ns a run")...)
	for _, p := range hookPrograms {
		row := []string{p.says}
		for _, c := range hookColumns {
			row = append(row, s.of(hookName(c.who, c.load, p.name), 1))
		}
		t.Row(row...)
	}
	return t.String()
}

// net is the median time of the named hooks, or of all, minus that of the same number of
// empty programs, in ns.
func (s *samples) net(who, load string, programs ...string) float64 {
	var sum float64
	for _, p := range hookPrograms {
		if p.empty == "" || len(programs) > 0 && !slices.Contains(programs, p.name) {
			continue
		}
		hook, empty := s.values[hookName(who, load, p.name)], s.values[hookName(who, load, p.empty)]
		if len(hook) == 0 || len(empty) == 0 {
			return 0
		}
		sum += spreadOf(hook).median - spreadOf(empty).median
	}
	return sum
}

// eventSums is by event, minus what an empty program takes.
func (s *samples) eventSums() string {
	if s.net("member", "busy", "fork_birth") == 0 {
		return ""
	}
	t := page.NewTable(hookHeads("event, ns without the statistics")...)
	for _, e := range []struct {
		name     string
		programs []string
	}{
		{"fork", []string{"fork_birth", "fork_sentence"}},
		{"exec", []string{"exec_event", "exec_sentence"}},
		{"exit", []string{"exit_death", "exit_sentence"}},
		{"reaped", []string{"free_reaped"}},
		{"all of a process", nil},
	} {
		row := []string{e.name}
		for _, c := range hookColumns {
			row = append(row, plain(s.net(c.who, c.load, e.programs...)))
		}
		t.Row(row...)
	}
	return t.String()
}

// joinsTable is an outsider's exec with a rule for containers and without.
func (s *samples) joinsTable() string {
	t := page.NewTable("an outsider's exec", "without:", "with a rule:", "with / without:")
	for _, load := range []string{"busy", "idle"} {
		name := func(rule bool, of string) string { return fmt.Sprintf("Joins/rule=%v/load=%s%s", rule, load, of) }
		without, with := s.values[name(false, " ns/op")], s.values[name(true, " ns/op")]
		if len(with) == 0 {
			return ""
		}
		t.Row("vfork, exec, exit and wait, µs, "+load, cell(scaled(without, 1e3)), cell(scaled(with, 1e3)), cell(pairs(with, without)))
		const program = "/program=exec_event ns/run"
		without, with = s.values[name(false, program)], s.values[name(true, program)]
		t.Row("of it exec_event, ns, "+load, cell(without), cell(with), cell(pairs(with, without)))
	}
	return t.String()
}

// A column has the cells of one figure, by size.
type column struct {
	head string
	cell func(n int) string
}

// sized is a table with a row for each size; "" without any.
func sized(head string, sizes []int, columns ...column) string {
	if len(sizes) == 0 {
		return ""
	}
	heads := []string{head}
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	t := page.NewTable(heads...)
	for _, n := range sizes {
		row := []string{grouped(int64(n))}
		for _, c := range columns {
			row = append(row, c.cell(n))
		}
		t.Row(row...)
	}
	return t.String()
}

// column shows samples in a unit that has that many of theirs; under emulation as
// multiples of the median at the first size.
func (s *samples) column(head, unit string, per float64, sizes []int, of func(n int) []float64) column {
	if !s.emulated() {
		return column{head + ", " + unit + ":", func(n int) string { return cell(scaled(of(n), per)) }}
	}
	return column{head + ", ×:", func(n int) string {
		first := of(sizes[0])
		if len(first) == 0 {
			return ""
		}
		return cell(scaled(of(n), spreadOf(first).median))
	}}
}

func (s *samples) killTable() string {
	sizes := s.sizesOf("Kill/", "members")
	by := func(what string) func(int) []float64 {
		return func(n int) []float64 { return s.values[fmt.Sprintf("Kill/members=%d/by=%s ns/op", n, what)] }
	}
	end, cgroup := by("end"), by("cgroup.kill")
	return sized("members:", sizes, s.column("end", "µs", 1e3, sizes, end), s.column("cgroup.kill", "µs", 1e3, sizes, cgroup),
		column{"end / cgroup.kill:", func(n int) string { return cell(pairs(end(n), cgroup(n))) }})
}

// growthTable shows the cost among more and more of something. Under emulation a pass and
// a snapshot are given per process that they visit.
func (s *samples) growthTable(key, head string) string {
	sizes := s.sizesOf("Growth/", key)
	of := func(what string) func(int) []float64 {
		return func(n int) []float64 { return s.values[fmt.Sprintf("Growth/%s=%d/%s", key, n, what)] }
	}
	hook := func(head, program string) column {
		return s.column(head, "ns", 1, sizes, of("program="+program+" ns/run"))
	}
	visits := of("do=pass processes")
	pass, snapshot := s.column("pass", "µs", 1e3, sizes, of("do=pass ns/op")), s.column("snapshot", "ms", 1e6, sizes, of("do=snapshot ns/op"))
	if s.emulated() {
		each := func(what string) func(int) []float64 {
			return func(n int) []float64 { return pairs(of("do="+what+" ns/op")(n), of("do="+what+" processes")(n)) }
		}
		pass = s.column("a visit of the pass", "", 1, sizes, each("pass"))
		snapshot = s.column("a process of the snapshot", "", 1, sizes, each("snapshot"))
	}
	return sized(head, sizes, hook("fork", "fork_birth"), hook("exec", "exec_event"), hook("exit", "exit_death"), hook("reaped", "free_reaped"),
		column{"visits:", func(n int) string { return median(visits(n)) }}, pass, snapshot)
}

// median is a cell with a whole number.
func median(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	return grouped(int64(spreadOf(v).median + 0.5))
}

// scaleTable shows what the daemon needs with many sessions.
func (s *samples) scaleTable() string {
	sizes := s.sizesOf("Scale/", "live")
	do := func(head, what string) column {
		return s.column(head, "ms", 1e6, sizes, func(n int) []float64 { return s.values[fmt.Sprintf("Scale/live=%d/do=%s ns/op", n, what)] })
	}
	return sized("processes:", sizes, column{"sessions:", func(n int) string { return grouped(int64(n / scaleEach)) }},
		do("ls", "ls"), do("tree of one", "tree"), do("why", "why"), do("end of one", "end"), do("first picture", "picture"), do("new daemon", "takeover"),
		s.memory("RSS, MiB:", "B-rss", 1<<20))
}

// levelTable shows times by guarantee level; each row has its part of the benchmark's name, and its text.
func (s *samples) levelTable(name, head string, rows [][2]string) string {
	t := page.NewTable(head, "level 4, ms:", "level 3, ms:", "level 2, ms:")
	some := false
	for _, r := range rows {
		row := []string{r[1]}
		for level := 4; level >= 2; level-- {
			v := s.values[fmt.Sprintf("%s/level=%d/%s ns/op", name, level, r[0])]
			some = some || len(v) > 0
			row = append(row, cell(scaled(v, 1e6)))
		}
		t.Row(row...)
	}
	if !some {
		return ""
	}
	return t.String()
}

// memory is a column of the daemon's memory.
func (s *samples) memory(head, unit string, per float64) column {
	return column{head, func(n int) string { return s.of(fmt.Sprintf("Daemon/live=%d %s", n, unit), per) }}
}

func (s *samples) memoryTable() string {
	return sized("live members:", s.sizesOf("Daemon/", "live"), s.memory("RSS, MB:", "B-rss", 1e6), s.memory("of it private, MB:", "B-anon", 1e6))
}

// cost is the summary.
func (s *samples) cost() string {
	ends, cgroups := s.values["Kill/members=100/by=end ns/op"], s.values["Kill/members=100/by=cgroup.kill ns/op"]
	if len(ends) == 0 || s.net("member", "busy") == 0 {
		return ""
	}
	t := page.NewTable("what", "measured:", "by")
	t.Row("an outsider's fork, exec and exit, all BPF programs together", plain(s.net("stranger", "busy")/1e3)+" µs", "`make bench BENCH=hooks`")
	t.Row("a member's", plain(s.net("member", "busy")/1e3)+" µs", "`make bench BENCH=hooks`")
	t.Row("end of 100 members, against `cgroup.kill` on as many", cell(pairs(ends, cgroups)), "`make bench BENCH=kill`")
	return t.String()
}
