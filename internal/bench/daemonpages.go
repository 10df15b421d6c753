//go:build linux

package main

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/internal/page"
)

func (s *samples) requestTable() string {
	sizes := s.sizesOf("Request/", "live")
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable("live:", "ls, ms:", "tree, ms:", "why, ms:", "end, ms:")
	for _, n := range sizes {
		ask := func(what string) string { return s.of(fmt.Sprintf("Request/live=%d/ask=%s ns/op", n, what), 1e6) }
		t.Row(grouped(int64(n)), ask("ls"), ask("tree"), ask("why"), ask("end"))
	}
	return t.String()
}

func (s *samples) memoryTable() string {
	sizes := s.sizesOf("Daemon/", "live")
	if len(sizes) == 0 {
		return ""
	}
	t := page.NewTable("live members:", "RSS, MB:", "of it private, MB:")
	for _, n := range sizes {
		of := func(unit string) string { return s.of(fmt.Sprintf("Daemon/live=%d %s", n, unit), 1e6) }
		t.Row(grouped(int64(n)), of("B-rss"), of("B-anon"))
	}
	return t.String()
}

func (s *samples) stormTable() string {
	cpu := s.of("Storm/forks=5000 ms-cpu/s", 1)
	if cpu == "" {
		return ""
	}
	t := page.NewTable("what", "measured:")
	t.Row("CPU at "+s.of("Storm/forks=5000 forks/s", 1)+" forks/s of a session, ms a second", cpu)
	t.Row("… of whose events were lost", median(s.values["Storm/forks=5000 events-lost"]))
	return t.String()
}

func (s *samples) runTable() string {
	command := func(name string) []float64 { return s.values["Run/command="+name+" ns/op"] }
	if len(command("run")) == 0 {
		return ""
	}
	more := make([]float64, len(command("run")))
	for i := range more {
		more[i] = command("run")[i] - command("true")[i]
	}
	t := page.NewTable("command", "ms:")
	t.Row("true", cell(scaled(command("true"), 1e6)))
	t.Row("lineage run true", cell(scaled(command("run"), 1e6)))
	t.Row("… more", cell(scaled(more, 1e6)))
	t.Row("lineage version, which asks the daemon once", cell(scaled(command("version"), 1e6)))
	return t.String()
}
