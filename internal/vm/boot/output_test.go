//go:build linux

package boot

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

func TestParseOutput(t *testing.T) {
	text := "\n" + guest.Begin("one") + "line\n" + "no newline" +
		"\n" + guest.Left("77", "x y") +
		"\n" + guest.End("one", 3, 1500*time.Millisecond) +
		"\n" + guest.Begin("two words") + "\n" + guest.End("two words", guest.TimedOut, time.Second) +
		"\n" + guest.Done()
	jobs, err := parseOutput([]byte(text))
	require.NoError(t, err)
	want := []Job{
		{Name: "one", Code: 3, Took: 1500 * time.Millisecond, Output: []byte("line\nno newline\n\n"), Left: []string{`77 "x y"`}},
		{Name: "two words", Code: guest.TimedOut, Took: time.Second, Output: []byte("\n")},
	}
	if !reflect.DeepEqual(jobs, want) {
		t.Errorf("got  %+v\nwant %+v", jobs, want)
	}
}

// A guest that stops anywhere before its last line has not succeeded.
func TestParseOutputUnfinished(t *testing.T) {
	whole := guest.Begin("one") + "out\n" + guest.End("one", 0, time.Second) + guest.Done()
	for n := range len(whole) - 1 {
		if _, err := parseOutput([]byte(whole[:n])); !errors.Is(err, ErrUnfinished) {
			t.Errorf("%q: %v", whole[:n], err)
		}
	}
	for _, bad := range []string{
		guest.Mark + "nonsense\n" + guest.Done(),
		guest.Begin("one") + guest.End("two words", 0, time.Second) + guest.Done(),
		guest.Begin("one") + guest.Mark + "end zero 1 one\n" + guest.Done(),
		guest.End("one", 0, time.Second) + guest.Done(),
	} {
		if _, err := parseOutput([]byte(bad)); !errors.Is(err, ErrUnfinished) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	jobs, _ := parseOutput([]byte(guest.Begin("one") + "so far\n"))
	if len(jobs) != 1 || jobs[0].Code != -1 || !strings.HasPrefix(string(jobs[0].Output), "so far") {
		t.Errorf("the job under way is %+v", jobs)
	}
}

func TestComplaints(t *testing.T) {
	console := `[    0.000000] Linux version 6.1.0
[    2.083957] amd_pstate: the _CPC object is not present in SBIOS or ACPI disabled
[    3.100000] WARNING: CPU: 0 PID: 77 at kernel/fork.c:1 copy_process+0x1/0x2
[    3.200000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    3.200001] Oops: 0002 [#1] PREEMPT SMP
[    3.300000] rcu: INFO: rcu_preempt self-detected stall on CPU
[    3.400000] INFO: task true:77 blocked for more than 120 seconds.
[    4.000000] dd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[    4.000001] Call Trace:
[    5.000000] Call Trace:
[   10.823497] reboot: Power down
`
	if got := Complaints([]byte(console)); len(got) != 6 {
		t.Errorf("complaints: %q", got)
	}
}
