//go:build linux

package history

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestWriteFails: what a batch that was not written was about is written with the next one.
func TestWriteFails(t *testing.T) {
	r, execs := newRecorder(t)
	execs(1)
	good := r.Journal
	r.Journal = OpenJournal(filepath.Join("/proc/self/nothing", "history.db"), JournalOptions{Boot: "boot", Now: func() time.Time { return time.Time{} }})
	if b, _ := r.batch(recordChunk); len(b.Sessions) != 1 {
		t.Fatalf("%d sessions to write", len(b.Sessions))
	} else if err := r.write(&b.Batch); err == nil {
		t.Fatal("it was written")
	} else {
		r.keep(b)
	}
	r.Journal = good
	r.flush(time.Minute)
	live, err := good.Live(t.Context())
	if err != nil || len(live) != 1 {
		t.Fatalf("%+v, %v", live, err)
	}
	if p, err := good.Processes(t.Context(), "boot", live[0].ID); err != nil || len(p) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestGap: events that fell off the ring before they were written leave a record.
func TestGap(t *testing.T) {
	r, execs := newRecorder(t)
	first := r.next
	execs(RingSize + 10)
	lost := r.Ring.End() - first - RingSize
	r.flush(time.Minute)
	b, err := r.Journal.Next(t.Context(), 0, time.Time{}, "", 0)
	if err != nil || b == nil {
		t.Fatal(b, err)
	}
	if gap := &b.Records[0]; lost == 0 || gap.Type != tracer.EventLost || gap.Count != lost || gap.Seq != first+lost-1 || r.lost.Load() != lost {
		t.Errorf("%d lost: %+v", lost, gap)
	}
}

// held is a kernel that holds these sessions.
type held struct {
	registry.Kernel
	all []tracer.SessionInfo
}

func (h held) Sessions() ([]tracer.SessionInfo, error) { return h.all, nil }

// TestAnotherBoot: a session of an earlier boot has ended, though the kernel holds one with its id.
func TestAnotherBoot(t *testing.T) {
	r, _ := newRecorder(t)
	doc := []byte(`{"id":"7"}`)
	row := Session{Boot: "b0", ID: 7, Word: "7", Name: "old", Zero: time.Unix(1, 0), Started: time.Unix(2, 0), Doc: doc, State: []byte(`{}`)}
	require.NoError(t, r.Journal.Write(t.Context(), &Batch{Sessions: []Session{row}}))
	r.Kernel = held{r.Kernel, []tracer.SessionInfo{{ID: 7}}}
	require.NoError(t, r.Remember(nil))
	if len(r.over) != 1 || r.over[0].Boot != "b0" || !bytes.Contains(r.over[0].Report, []byte(ReasonReboot)) {
		t.Errorf("%+v", r.over)
	}
}

// TestSecretsOfRequests: no secret of a command line gets into the file.
func TestSecretsOfRequests(t *testing.T) {
	argv := []string{"tmux", "new", "--password", "hunter2"}
	asked := []api.Delegated{{Broker: "tmux", Asked: &api.Process{Comm: "tmux", Argv: argv}}}
	x := row{
		doc:    api.Session{Root: &api.Process{Argv: argv}, Delegated: asked},
		report: &api.Report{Processes: []api.Outcome{{Argv: argv}}, Delegated: asked},
	}
	require.NoError(t, x.encode(policy.Default().Redact))
	for name, text := range map[string][]byte{"document": x.Doc, "receipt": x.Report, "state": x.State} {
		if bytes.Contains(text, []byte("hunter2")) || name != "state" && !bytes.Contains(text, []byte("tmux")) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if asked[0].Asked.Argv[3] != "hunter2" {
		t.Error("the receipt itself was changed")
	}
}

// TestCommandOnce: the row of a process has its command line once, without secrets, and not the one of its creator.
func TestCommandOnce(t *testing.T) {
	ran := lineage.Command{Time: 2, Argv: []string{"lngtest", "--password", "hunter2"}}
	n := lineage.Node{ID: lineage.ID{PID: 5, Start: 1}, Evidence: lineage.Fork, Argv: ran.Argv, Commands: []lineage.Command{{Time: 1, Argv: []string{"creator"}}, ran}}
	var b batch
	(&Recorder{Options: Options{Redact: policy.Default().Redact}}).process(&b, &n, false, true)
	if doc := string(b.Processes[0].Doc); strings.Count(doc, "--password") != 1 || strings.Contains(doc,
		"hunter2") || strings.Contains(doc, "creator") || len(doc) > 100 {
		t.Error(doc)
	}
}

// TestSpare: the history may do without the dead, and then it has room for as many again.
func TestSpare(t *testing.T) {
	r := &Recorder{rows: map[lineage.ID]bool{{PID: 5, Start: 1}: true}, dead: map[tracer.SessionID]int{7: 1}}
	if r.spare(5, 1, 7) || r.dead[7] != 1 {
		t.Error("a live process may go")
	}
	if !r.spare(5, 2, 7) || r.dead[7] != 0 || !r.spare(5, 3, 7) || r.dead[7] != 0 {
		t.Errorf("a dead process has to stay, or is counted wrong: %d", r.dead[7])
	}
}
