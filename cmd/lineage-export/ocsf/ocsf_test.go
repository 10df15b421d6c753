package ocsf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/internal/ocsf"
	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write the samples and the fields in docs")

const samplesPath = "../../../docs/siem-samples.jsonl"

// TestSamples: each event is valid, the samples are what the encoder makes, and each of the
// findings is among them.
func TestSamples(t *testing.T) {
	e := newEncoder()
	var lines bytes.Buffer
	found := make(map[string]bool)
	for _, s := range samples() {
		logs := encoded(e, s.Record)
		if len(logs) == 0 {
			t.Errorf("%s gives no event", s.name)
		}
		for _, l := range logs {
			lines.Write(append(l.JSON, '\n'))
		}
		for _, v := range events(t, s.Record) {
			if v.ClassUID == detectionFinding.uid {
				found[v.FindingInfo.Analytic.UID] = true
			}
		}
	}
	require.Equal(t, len(found), 8)
	if *update {
		require.NoError(t, os.WriteFile(samplesPath, lines.Bytes(), 0o644))
	}
	if have, err := os.ReadFile(samplesPath); err != nil || !bytes.Equal(have, lines.Bytes()) {
		t.Errorf("docs/siem-samples.jsonl is old (%v): go test ./cmd/lineage-export/ocsf -update", err)
	}
}

// TestFields: the page has every field, and what the comments say about it.
func TestFields(t *testing.T) {
	comments, err := page.Comments(".")
	require.NoError(t, err)
	table := page.NewTable("field", "classes", "has")
	addRows(t, table, comments, "", "", reflect.TypeFor[event]())
	require.NoError(t, page.Keep("../../../docs/SIEM.md", "fields", table.String(), *update))
}

// once names the one place where the fields of a type are documented that is in many places.
var once = map[reflect.Type]string{
	reflect.TypeFor[process](): "process", reflect.TypeFor[account](): "process.user", reflect.TypeFor[actor](): "actor",
	reflect.TypeFor[processRef](): "unmapped.lineage.creator",
}

// inBrackets is the classes of a field, and what it has.
var inBrackets = regexp.MustCompile(`^(?:\(([^)]+)\) ?)?(.*)$`)

// addRows adds the fields of a struct at a path of the event, which is in events of some classes.
func addRows(t *testing.T, table *page.Table, comments map[string]string, path, classes string, in reflect.Type) {
	for f := range in.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := cmp.Or(strings.Trim(path+"."+name, "."), path) // embedded structs have no name
		said := inBrackets.FindStringSubmatch(comments[in.Name()+"."+f.Name])
		has, where := said[2], cmp.Or(said[1], classes)
		kind, list := f.Type, f.Type.Kind() == reflect.Slice
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		place, many := once[kind]
		deeper := kind.Kind() == reflect.Struct && (!many || place == at) && (!list || kind != reflect.TypeFor[entity]())
		switch {
		case has != "" && where != "":
			table.Row("`"+at+"`", where, has)
		case !deeper:
			t.Errorf("no comment says what %s.%s has, and in which classes", in.Name(), f.Name)
		}
		if deeper {
			addRows(t, table, comments, at, where, kind)
		}
	}
}

// TestNothing: records that OCSF has no event for give none.
func TestNothing(t *testing.T) {
	for _, k := range []follow.Kind{api.EventReparent, api.EventListen, api.EventUnlisten, api.EventSession} {
		if logs := encoded(New(), &follow.Record{Kind: k, Host: sampleHost}); len(logs) > 0 {
			t.Errorf("%s gives %s", k, logs[0].JSON)
		}
	}
}

// TestHealth: a condition that is over closes the finding that it opened.
func TestHealth(t *testing.T) {
	for _, s := range samples() {
		if s.Kind != follow.Status {
			continue
		}
		over := *s.Record
		over.ID, over.Status, over.Before = "over", s.Before, s.Status
		opened, resolved := events(t, s.Record), events(t, &over)
		if len(opened) != len(resolved) {
			t.Fatalf("%s: %d opened, %d closed", s.name, len(opened), len(resolved))
		}
		for i, v := range resolved {
			if o := opened[i]; v.FindingInfo.UID != o.FindingInfo.UID || v.ActivityName != "Close" || v.Status != "Resolved" ||
				v.IsAlert || v.Metadata.UID == o.Metadata.UID {
				t.Errorf("%s: %+v, want it to close %+v", s.name, v.FindingInfo, o.FindingInfo)
			}
		}
	}
}

func events(t *testing.T, r *follow.Record) (all []event) {
	t.Helper()
	for _, l := range encoded(newEncoder(), r) {
		if err := ocsf.Validate(l.JSON); err != nil {
			t.Errorf("%v: %s", err, l.JSON)
		}
		var v event
		require.NoError(t, json.Unmarshal(l.JSON, &v))
		all = append(all, v)
	}
	return all
}

// TestLeft: an end that left something is partial, and high.
func TestLeft(t *testing.T) {
	r := ended(api.Outcome{Ref: serverRef, Comm: "python3", Outcome: api.OutcomeLeft, Why: "state D", Leftover: true})
	r.Report.Verdict, r.Report.VerdictWhy, r.Report.Left = api.VerdictLeft, "alive 9s after SIGKILL", 1
	all := events(t, r)
	if v := all[0]; v.Status != "Partial" || *v.StatusID != 4 || v.StatusDetail != r.Report.VerdictWhy || v.Severity != "High" {
		t.Errorf("the receipt: %s %d %q, severity %s", v.Status, *v.StatusID, v.StatusDetail, v.Severity)
	}
	if v := all[len(all)-1]; v.ClassUID != 2004 || v.Severity != "High" || v.Count != 1 {
		t.Errorf("the finding: %+v", v)
	}
}

// TestOrderly: processes that were alive when a session was ended, while its root lived, are not
// left behind, and neither is a process that exits on its own.
func TestOrderly(t *testing.T) {
	for name, o := range map[string]api.Outcome{
		"ended with its root": {Ref: serverRef, Comm: "python3", Outcome: api.OutcomeTerm},
		"exited on its own":   {Ref: serverRef, Comm: "python3", Outcome: api.OutcomeSelf, Leftover: true},
	} {
		for _, v := range events(t, ended(o)) {
			if v.ClassUID == 2004 {
				t.Errorf("%s: a finding: %s", name, v.Message)
			}
		}
	}
}

// TestDeath: only the OOM killer and processes that are neither of the session nor of the one around it kill from outside.
func TestDeath(t *testing.T) {
	by := func(pid int, session string) *api.Sender {
		return &api.Sender{Signal: "SIGKILL", Kind: "process", Process: &api.Process{Ref: api.Ref{PID: pid, StartNS: 3}, Session: session, Comm: "pkill"}}
	}
	passed := by(7, "")
	passed.Passed = true
	for _, c := range []struct {
		signal string
		killer *api.Sender
		found  bool
	}{
		{"SIGKILL", by(7, ""), true},
		{"SIGKILL", by(7, "other1"), true},
		{"SIGKILL", &api.Sender{Kind: "oom"}, true},
		{"SIGKILL", by(7, "k3x9q2"), false},
		{"SIGKILL", by(7, "outer1"), false},
		{"SIGKILL", by(4243, ""), false}, // itself
		{"SIGKILL", passed, false},       // Ctrl-C
		{"SIGKILL", &api.Sender{Kind: "lineage"}, false},
		{"SIGSEGV", &api.Sender{Kind: "fault"}, false},
		{"", by(7, ""), false}, // it handled the signal
		{"SIGKILL", nil, false},
	} {
		r := newStory().event(9*second, "exit", api.Event{Process: &api.Process{Ref: api.Ref{PID: 4243, StartNS: 3}, Session: "k3x9q2", Comm: "node",
			Signal: c.signal, Killer: c.killer}})
		r.Session.Parent = "outer1"
		all := events(t, r)
		if found := len(all) == 2; found != c.found || found && (fmt.Sprint(all[1].Evidences[0].Data) != fmt.Sprintf("map[kind:%s signal:SIGKILL]", c.killer.Kind) ||
			(all[1].Evidences[0].Actor != nil) != (c.killer.Process != nil)) {
			t.Errorf("%s %+v: %d events, %+v", c.signal, c.killer, len(all), all[len(all)-1])
		}
	}
}

func ended(processes ...api.Outcome) *follow.Record {
	r := newStory().event(300*second, "session", api.Event{Session: "k3x9q2", State: api.StateEnded, Reason: "end"})
	r.Report = &api.Report{Session: "k3x9q2", State: api.StateEnded, EndReason: "end", Verdict: api.VerdictClean, Processes: processes}
	return r
}

// TestUnknownSession: the user of a session that the daemon does not know is not root.
func TestUnknownSession(t *testing.T) {
	s := storyOf(nil)
	r := s.event(110*second, "fork", api.Event{Process: &api.Process{Ref: shellRef, Session: "k3x9q2", Comm: "sh"}})
	if v := events(t, r)[0]; v.Unmapped.Lineage.Session.ID != "k3x9q2" || v.Unmapped.Lineage.Session.UserUID != "" {
		t.Errorf("%+v", v.Unmapped.Lineage.Session)
	}
}

// TestTruncated: an exec whose command line is complete says that its ancestry was cut.
func TestTruncated(t *testing.T) {
	s := newStory()
	creator := agentRef
	for n := range 2 * maxAncestry {
		ref := api.Ref{PID: 5000 + n, StartNS: api.U64(110*second) + api.U64(n)}
		s.event(110*second+uint64(n), "fork", api.Event{Process: &api.Process{Ref: ref, Session: "k3x9q2", Comm: "sh", Creator: &creator}})
		creator = ref
	}
	r := s.event(120*second, "exec", api.Event{Process: &api.Process{Ref: creator, Session: "k3x9q2", Comm: "make", Argv: []string{"make"}}})
	if v := events(t, r)[0]; len(v.Process.Ancestry) != maxAncestry || !v.Metadata.IsTruncated {
		t.Errorf("%d ancestors, truncated: %v", len(v.Process.Ancestry), v.Metadata.IsTruncated)
	}
}
