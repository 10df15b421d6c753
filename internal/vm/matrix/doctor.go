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

// The hosts other than the cell's own that doctor must refuse, in a usual configuration
// of each kernel.
var refused = []guest.Job{
	{Name: "doctor without BTF", Hide: []string{"/sys/kernel/btf"}},
	{Name: "doctor in a container", PIDNamespace: true, NoCapabilities: true},
	{Name: "doctor without capabilities", NoCapabilities: true},
}

// doctorJobs runs doctor in the cell. If the cell is its kernel's usual configuration,
// it also runs it without BTF, in a container and without capabilities.
func (c *cell) doctorJobs() []guest.Job {
	lineage := guest.Root + "/bin/lineage"
	jobs := []guest.Job{
		{Name: doctorText, Args: []string{lineage, "doctor"}},
		{Name: doctorJSON, Args: []string{lineage, "doctor", "-o", "json"}},
	}
	if c.usual() {
		for _, j := range refused {
			j.Args = jobs[0].Args
			jobs = append(jobs, j)
		}
	}
	for i := range jobs {
		jobs[i].Dir, jobs[i].Timeout = "/tmp", 5*time.Minute
	}
	return jobs
}

// usual reports whether the cell is its kernel as Debian configures it.
func (c *cell) usual() bool { return c.name == c.series }

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
	asked := []string{doctorText}
	if c.usual() {
		for _, j := range refused {
			asked = append(asked, j.Name)
			if got := jobs[j.Name].Code; got != exitUnsupported {
				problem("%s: exit code %d, want %d", j.Name, got, exitUnsupported)
			}
		}
	}
	for _, name := range asked {
		printed := strings.TrimSpace(strings.ReplaceAll(string(jobs[name].Output), r.Release, "RELEASE")) + "\n"
		golden := filepath.Join("internal/vm/matrix/testdata", fileName(c.name+" "+name)+".golden")
		if update {
			if err := os.WriteFile(golden, []byte(printed), 0o644); err != nil {
				problem("%v", err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			problem("%v; -update writes it", err)
		} else if !bytes.Equal(want, []byte(printed)) {
			problem("%s says:\n%s%s has:\n%s", name, printed, golden, want)
		}
	}
}
