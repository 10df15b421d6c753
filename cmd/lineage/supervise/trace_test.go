//go:build linux

package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// lines of a stream of events.
const (
	recordingLine = `{"kind":"recording"}`
	rootLine      = `{"kind":"process","pid":7,"start_ns":"700","comm":"sh","state":"live","started":"2026-03-04T12:00:00Z"}`
	overLine      = `{"kind":"end","reason":"session_over"}`
)

func forkLine(seq, pid int) string {
	return fmt.Sprintf(`{"kind":"event","seq":"%d","time_ns":"%d","type":"fork","process":{"pid":%d,"start_ns":"800","comm":"c%[3]d","creator":{"pid":7,"start_ns":"700"}}}`, seq, 1000+seq, pid)
}

func timelined(t *testing.T, streams ...[]string) script {
	s := script{Streams: streams, Log: filepath.Join(t.TempDir(), "log")}
	s.Options.Trace = filepath.Join(t.TempDir(), "t.json")
	return s
}

// asked are the calls that the log has for streams of events.
func asked(t *testing.T, s script) (calls []string) {
	t.Helper()
	b := require.ReadFile(t, s.Log)
	for line := range strings.Lines(string(b)) {
		if call, ok := strings.CutPrefix(line, "events "); ok {
			calls = append(calls, strings.TrimSpace(call))
		}
	}
	return calls
}

// A timeline has the events of the session in order of their numbers, even if streams
// break.
func TestTrace(t *testing.T) {
	for name, tt := range map[string]struct {
		s     script
		has   []string // the names of processes
		asked []string
		says  string
	}{
		"whole": {
			s:     timelined(t, []string{recordingLine, rootLine, forkLine(5, 101), forkLine(6, 102), overLine}),
			has:   []string{"7 sh", "101 c101", "102 c102"},
			asked: []string{"from=0 snapshot=true"},
		},
		"the daemon is restarted": {
			s: timelined(t, []string{recordingLine, rootLine, forkLine(5, 101), `{"kind":"end","reason":"stopping"}`},
				[]string{forkLine(6, 102), overLine}),
			has:   []string{"101 c101", "102 c102"},
			asked: []string{"from=0 snapshot=true", "from=6 snapshot=false"},
		},
		"the connection breaks": {
			s:     timelined(t, []string{recordingLine, rootLine, forkLine(5, 101)}, []string{forkLine(6, 102), overLine}),
			has:   []string{"101 c101", "102 c102"},
			asked: []string{"from=0 snapshot=true", "from=6 snapshot=false"},
		},
		"we are too slow": {
			s: timelined(t, []string{recordingLine, rootLine, forkLine(5, 101), `{"type":"lost","where":"reader","lost_from":"6","lost_to":"7","count":2}`, forkLine(8, 104)},
				[]string{forkLine(6, 102), forkLine(7, 103), forkLine(8, 104), overLine}),
			has:   []string{"101 c101", "102 c102", "103 c103", "104 c104"},
			asked: []string{"from=0 snapshot=true", "from=6 snapshot=false"},
		},
		"no policy": {
			s: func() script {
				s := timelined(t, []string{recordingLine, rootLine, overLine})
				s.NoPolicy = true
				return s
			}(),
			has:  []string{"7 sh"},
			says: "arguments are left out: cannot read which secrets the policy hides: policy: denied",
		},
		"the events end too early": {
			s:    timelined(t, []string{recordingLine, rootLine, forkLine(5, 101)}),
			has:  []string{"101 c101", "events missing: the daemon did not send the last events"},
			says: "the daemon did not send the last events within 8s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.s, "sh", "-c", "exit 3")
			if got.code != 3 || (got.stderr != "") != (tt.says != "") || !strings.Contains(got.stderr, tt.says) || strings.Count(got.stderr, "\n") > 1 {
				t.Errorf("%+v, want to hear %q", got, tt.says)
			}
			b := require.ReadFile(t, tt.s.Options.Trace)
			for _, text := range tt.has {
				if !bytes.Contains(b, []byte(text)) {
					t.Errorf("%q is not in the timeline", text)
				}
			}
			if calls := asked(t, tt.s); tt.asked != nil && strings.Join(calls, "; ") != strings.Join(tt.asked, "; ") {
				t.Errorf("asked for %q, want %q", calls, tt.asked)
			}
			if all, _ := os.ReadDir(filepath.Dir(tt.s.Options.Trace)); len(all) != 1 {
				t.Errorf("beside it: %v", all)
			}
		})
	}
}

// A failed write is reported once; the command's exit code is kept, and no partial
// timeline is left.
func TestTraceUnwritten(t *testing.T) {
	stream := []string{recordingLine, rootLine, overLine}
	s := timelined(t, stream)
	s.Forks = 2000 // more than is buffered
	s.Options.Trace = "/dev/full"
	got := run(t, s, "sh", "-c", "exit 3")
	if got.code != 3 || got.stderr != "lineage: run: trace /dev/full: not written: write full: no space left on device\n" {
		t.Errorf("%+v", got)
	}

	s = timelined(t, stream)
	if got := run(t, s, "/nosuch/lngtest"); got.code != 127 {
		t.Errorf("%+v", got)
	}
	if got := run(t, s, "/proc/self/status"); got.code != 126 {
		t.Errorf("%+v", got)
	}
	if all, _ := os.ReadDir(filepath.Dir(s.Options.Trace)); len(all) != 0 {
		t.Errorf("left behind: %v", all)
	}

	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	s = timelined(t, stream)
	s.Options.Trace, s.Forks = fifo, 2000
	if got := run(t, s, "true"); got.code != 125 || got.stderr != "lineage: run: trace "+fifo+": nothing reads from it\n" {
		t.Errorf("%+v", got)
	}
	reader, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer reader.Close()
	s.Waits = 200 * time.Millisecond
	if got := run(t, s, "sh", "-c", "exit 3"); got.code != 3 || got.stderr != "lineage: run: trace "+fifo+": not written within 200ms\n" {
		t.Errorf("%+v", got)
	}
}

// With --user the file is written with that user's rights.
func TestTraceAsTheUser(t *testing.T) {
	dir := nobodys(t)
	s := timelined(t, []string{recordingLine, rootLine, overLine})
	s.Options.User, s.Options.Trace = "nobody", filepath.Join(dir, "t")
	if got := run(t, s, "true"); got.code != 0 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.Options.Trace, &st); err != nil || st.Uid != nobody || st.Size == 0 {
		t.Errorf("%v, %+v", err, st)
	}
	root := secret(t)
	s.Options.Trace = filepath.Join(filepath.Dir(root), "t")
	if got := run(t, s, "true"); got.code != 125 || !strings.Contains(got.stderr, "permission denied") {
		t.Errorf("%+v", got)
	}
}
