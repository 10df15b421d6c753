//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/vm/boot"
	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

const (
	doctorText = "doctor"
	doctorJSON = "doctor -o json"
)

// doctorJobs runs doctor in the cell.
func doctorJobs() []guest.Job {
	lineage := guest.Root + "/bin/lineage"
	return []guest.Job{
		{Name: doctorText, Dir: "/tmp", Timeout: 5 * time.Minute, Args: []string{lineage, "doctor"}},
		{Name: doctorJSON, Dir: "/tmp", Timeout: 5 * time.Minute,
			Args: []string{lineage, "doctor", "-o", "json"}},
	}
}

const (
	exitOK          = 0
	exitUnsupported = 7
)

// judgeDoctor compares doctor's verdict with what the kernel promises, and its output
// with the golden file.
func (c *cell) judgeDoctor(r *result, jobs map[string]boot.Job, update bool, problem func(string, ...any)) {
	wantCode, wantLevel := exitOK, promised(r.Release)
	if c.untracked {
		wantCode, wantLevel = exitUnsupported, 0
	}
	var d api.Doctor
	if err := json.Unmarshal(jobs[doctorJSON].Output, &d); err != nil {
		problem("%s: %v:\n%s", doctorJSON, err, tail(string(jobs[doctorJSON].Output), 12))
	}
	r.Level, r.Missing = d.Level, d.Missing
	for _, item := range d.Items {
		if !item.OK {
			r.Lacks = append(r.Lacks, item.Feature+": "+item.Why)
		}
	}
	if d.Level != wantLevel {
		problem("level %d, promised is %d", d.Level, wantLevel)
	}
	for name, want := range map[string]int{doctorText: wantCode, doctorJSON: wantCode} {
		if got := jobs[name].Code; got != want {
			problem("%s: exit code %d, want %d", name, got, want)
		}
	}
	printed := strings.TrimSpace(strings.ReplaceAll(string(jobs[doctorText].Output),
		r.Release, "RELEASE")) + "\n"
	golden := filepath.Join("internal/vm/matrix/testdata", fileName(c.name+" "+doctorText)+".golden")
	if update {
		if err := os.WriteFile(golden, []byte(printed), 0o644); err != nil {
			problem("%v", err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		problem("%v; -update writes it", err)
	} else if !bytes.Equal(want, []byte(printed)) {
		problem("%s says:\n%s%s has:\n%s", doctorText, printed, golden, want)
	}
}
