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
	if s.emulated() {
		return s.emulatedTables()
	}
	return []table{
		{document, "host", s.machine()},
		{document, "hooks", s.hookTable()},
		{document, "events", s.eventSums()},
		{document, "ports", s.portTable()},
		{document, "spawn", s.spawnTable()},
		{document, "kill", s.killTable()},
		{document, "endstorm", s.endStormTable()},
		{document, "exit", s.exitTable()},
		{document, "sweep", s.sweepTable()},
		{document, "processes", s.growthTable("live", "processes")},
		{document, "sessions", s.growthTable("sessions", "sessions")},
		{document, "depth", s.growthTable("depth", "ancestors")},
		{document, "requests", s.requestTable()},
		{document, "among", s.amongTable()},
		{document, "memory", s.memoryTable()},
		{document, "storm", s.stormTable()},
		{document, "run", s.runTable()},
		{document, "go", s.goTable()},
		{document, "top", s.topTable()},
		{document, "cost", s.cost()},
	}
}

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

// net is the median time of the named hooks, minus that of the same number of empty programs, in ns.
func (s *samples) net(who, load string, programs ...string) float64 {
	var sum float64
	for _, p := range hookPrograms {
		if !slices.Contains(programs, p.name) {
			continue
		}
		own, empty := s.values[hookName(who, load, p.name)], s.values[hookName(who, load, p.empty)]
		if len(own) == 0 || len(empty) == 0 {
			return 0
		}
		sum += spreadOf(own).median - spreadOf(empty).median
	}
	return sum
}

// eventSums is by event, minus what an empty program takes.
func (s *samples) eventSums() string {
	if s.net("member", "busy", "fork_birth") == 0 {
		return ""
	}
	t := page.NewTable(hookHeads("event, ns without the statistics")...)
	all := []string{}
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
		programs := e.programs
		if programs == nil {
			programs = all
		}
		all = append(all, e.programs...)
		row := []string{e.name}
		for _, c := range hookColumns {
			row = append(row, plain(s.net(c.who, c.load, programs...)))
		}
		t.Row(row...)
	}
	return t.String()
}

// portTable shows the changes of TCP sockets' states.
func (s *samples) portTable() string {
	name := func(who, program string) string { return fmt.Sprintf("Ports/who=%s/program=%s ns/run", who, program) }
	if len(s.values[name("member", "tcp_state")]) == 0 {
		return ""
	}
	t := page.NewTable("whose socket", "tcp_state, ns:", "an empty program, ns:", "tcp_state / empty:")
	for _, w := range []struct{ name, says string }{{"stranger", "an outsider's"}, {"member", "a member's"}} {
		own, empty := name(w.name, "tcp_state"), name(w.name, "none_tcp")
		t.Row(w.says, s.of(own, 1), s.of(empty, 1), ratio(pairs(s.values[own], s.values[empty])))
	}
	return t.String()
}

func (s *samples) spawnTable() string {
	name := func(what, who, tracing string) []float64 {
		return s.values[fmt.Sprintf("Spawn/what=%s/who=%s/tracing=%s ns/op", what, who, tracing)]
	}
	if len(name("vfork", "stranger", "off")) == 0 {
		return ""
	}
	t := page.NewTable("what", "without, µs:", "outsider, µs:", "member, µs:", "outsider / without:", "member / without:")
	for _, w := range []struct{ name, says string }{
		{"vfork", "vfork, exit, wait"}, {"fork", "fork, exit, wait"}, {"exec", "vfork, exec, exit, wait"}, {"make", "make -j2 of 50 C files"},
	} {
		off, stranger, member := name(w.name, "stranger", "off"), name(w.name, "stranger", "on"), name(w.name, "member", "on")
		t.Row(w.says, cell(scaled(off, 1e3)), cell(scaled(stranger, 1e3)), cell(scaled(member, 1e3)),
			ratio(pairs(stranger, off)), ratio(pairs(member, off)))
	}
	return t.String()
}

// ratio is a cell of ratios, which need three digits after the point.
func ratio(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	p := spreadOf(v)
	return fmt.Sprintf("%.3f (%.3f–%.3f)", p.median, p.low, p.high)
}

func (s *samples) killTable() string {
	sizes := s.sizesOf("Kill/", "members")
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable("members:", "end, µs:", "cgroup.kill, µs:", "killpg, µs:", "walk of /proc, µs:", "end / cgroup.kill:")
	for _, n := range sizes {
		name := func(by string) string { return fmt.Sprintf("Kill/members=%d/by=%s ns/op", n, by) }
		t.Row(grouped(int64(n)), s.of(name("end"), 1e3), s.of(name("cgroup.kill"), 1e3), s.of(name("killpg"), 1e3), s.of(name("walk"), 1e3),
			cell(pairs(s.values[name("end")], s.values[name("cgroup.kill")])))
	}
	return t.String()
}

func (s *samples) endStormTable() string {
	ends, kills := s.values["EndStorm/by=end ns/op"], s.values["EndStorm/by=cgroup.kill ns/op"]
	if len(ends) == 0 {
		return ""
	}
	t := page.NewTable("ended by", "ms:", "worst, ms:")
	for _, c := range []struct {
		says string
		took []float64
	}{{"lineage end --now --yes", ends}, {"sh -c 'echo 1 > cgroup.kill'", kills}} {
		t.Row("`"+c.says+"`", cell(scaled(c.took, 1e6)), plain(slices.Max(c.took)/1e6))
	}
	t.Row("the first / the second", cell(pairs(ends, kills)), "")
	return t.String()
}

func (s *samples) exitTable() string {
	sizes := s.sizesOf("RootExit/", "members")
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable("members:", "µs:", "worst, µs:")
	for _, n := range sizes {
		v := s.values[fmt.Sprintf("RootExit/members=%d ns/op", n)]
		t.Row(grouped(int64(n)), cell(scaled(v, 1e3)), plain(slices.Max(v)/1e3))
	}
	return t.String()
}

func (s *samples) sweepTable() string {
	strangers, members := s.sizesOf("Sweep/", "strangers"), s.sizesOf("Sweep/strangers=0/", "members")
	if len(strangers) == 0 || len(members) == 0 {
		return ""
	}
	t := page.NewTable("outsiders:", "members:", "in exit hooks, µs:", "worst, µs:")
	row := func(strangers, members int) {
		v := s.values[fmt.Sprintf("Sweep/strangers=%d/members=%d ns/end", strangers, members)]
		if len(v) > 0 {
			t.Row(grouped(int64(strangers)), grouped(int64(members)), cell(scaled(v, 1e3)), plain(slices.Max(v)/1e3))
		}
	}
	for _, n := range strangers {
		row(n, members[0])
	}
	for _, n := range members[1:] {
		row(0, n)
	}
	return t.String()
}

func (s *samples) growthTable(key, says string) string {
	sizes := s.sizesOf("Growth/", key)
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable(says+":", "fork, ns:", "exec, ns:", "exit, ns:", "reaped, ns:", "pass, µs:", "visits:", "snapshot, ms:")
	for _, n := range sizes {
		name := func(what string) string { return fmt.Sprintf("Growth/%s=%d/%s", key, n, what) }
		hook := func(program string) string { return s.of(name("program="+program)+" ns/run", 1) }
		t.Row(grouped(int64(n)), hook("fork_birth"), hook("exec_event"), hook("exit_death"), hook("free_reaped"),
			s.of(name("do=pass")+" ns/op", 1e3), median(s.values[name("do=pass")+" processes"]), s.of(name("do=snapshot")+" ns/op", 1e6))
	}
	return t.String()
}

// median is a cell with a whole number.
func median(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	return grouped(int64(spreadOf(v).median + 0.5))
}

// goTable shows the Go benchmarks of events in user space.
func (s *samples) goTable() string {
	t := page.NewTable("what", "ns:", "allocations:")
	found := false
	for _, b := range []struct{ name, says string }{
		{"Decode/birth", "decode a birth"}, {"Decode/exec", "decode an exec"}, {"Decode/exit", "decode an exit"},
		{"ApplyForkExit", "apply to the graph, an event: fork, exit, reaped"},
		{"ApplyForkExecExit", "… with an exec"},
		{"ApplyHops", "… an endless chain of fork and exit"},
	} {
		if s.of(b.name+" ns/op", 1) == "" {
			continue
		}
		found = true
		t.Row(b.says, s.of(b.name+" ns/op", 1), median(s.values[b.name+" allocs/op"]))
	}
	if !found {
		return ""
	}
	return t.String()
}

// amongTable shows the graph with more and more in it.
func (s *samples) amongTable() string {
	t := page.NewTable("live:", "ns:", "sessions:", "ns:", "ancestors:", "ns:")
	keys := []string{"live", "sessions", "depth"}
	rows := len(s.sizesOf("ApplyAmong/", "live"))
	for i := range rows {
		var row []string
		for _, key := range keys {
			sizes := s.sizesOf("ApplyAmong/", key)
			if i < len(sizes) {
				row = append(row, grouped(int64(sizes[i])), s.of(fmt.Sprintf("ApplyAmong/%s=%d ns/op", key, sizes[i]), 1))
			} else {
				row = append(row, "", "")
			}
		}
		t.Row(row...)
	}
	if rows == 0 {
		return ""
	}
	return t.String()
}

// topTable shows the terminal view.
func (s *samples) topTable() string {
	t := page.NewTable("what, ms", "1,000 processes:", "10,000:", "100,000:")
	found := false
	for _, b := range []struct{ name, says string }{
		{"Key", "a key"}, {"Frame/tree", "a frame of the tree"}, {"Frame/filter", "a frame under a filter"},
		{"Frame/flat", "a frame of the flat list"}, {"Filter", "typing a letter of a filter"}, {"Snapshot", "a whole new picture"},
	} {
		row := []string{b.says}
		for _, n := range []int{1000, 10000, 100000} {
			row = append(row, s.of(fmt.Sprintf("%s/%d ns/op", b.name, n), 1e6))
		}
		found = found || row[1] != ""
		t.Row(row...)
	}
	if !found {
		return ""
	}
	return t.String()
}

// cost is the summary.
func (s *samples) cost() string {
	all := []string{"fork_birth", "fork_sentence", "exec_event", "exec_sentence", "exit_death", "exit_sentence", "free_reaped"}
	member := s.values["Spawn/what=exec/who=member/tracing=on ns/op"]
	ends := s.values["Kill/members=100/by=end ns/op"]
	if len(member) == 0 || len(ends) == 0 || s.net("member", "busy", all...) == 0 {
		return ""
	}
	t := page.NewTable("what", "measured:", "by")
	t.Row("an outsider's fork, exec and exit, all BPF programs together", plain(s.net("stranger", "busy", all...)/1e3)+" µs", "`make bench BENCH=hooks`")
	t.Row("a member's", plain(s.net("member", "busy", all...)/1e3)+" µs", "`make bench BENCH=hooks`")
	t.Row("time to spawn a program and wait for it, as a member, against no tracing",
		ratio(pairs(member, s.values["Spawn/what=exec/who=stranger/tracing=off ns/op"])), "`make bench BENCH=spawn`")
	t.Row("end of 100 members, against `cgroup.kill` on as many", cell(pairs(ends, s.values["Kill/members=100/by=cgroup.kill ns/op"])), "`make bench BENCH=kill`")
	return t.String()
}
