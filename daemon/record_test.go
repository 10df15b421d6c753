//go:build linux

package daemon_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestAudit: every end and every refusal is a record.
func TestAudit(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "x", GraceMS: daemontest.MS(0)})
	w.Do("else", "POST", "/v1/sessions/x/end", nil).Refused(api.CodeNotFound)
	w.Do("100", "POST", "/v1/sessions/x/end", nil).Refused(api.CodeDenied)
	w.Do("user", "POST", "/v1/sessions/x/end", api.EndRequest{PlanToken: "x"}).Refused(api.CodeChanged)
	w.Do("user", "POST", "/v1/sessions/x/end", nil)
	w.Receipt(s.ID)
	other := w.Session("user", 110, api.NewSession{GraceMS: daemontest.MS(0)})
	w.K.Exit(110, 0)
	w.Receipt(other.ID)
	w.Do("else", "POST", "/v1/sessions/"+other.ID+"/end", nil).Refused(api.CodeNotFound) // memory and the history have it
	w.Stop()
	f, err := os.Open(filepath.Join(w.Dir, "audit.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	var got []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		r := mustRecord(t, lines.Bytes())
		line := r.Verb + " " + r.Decision
		if r.Caller != nil {
			line += fmt.Sprintf(" by %d/%d", r.Caller.UID, r.Caller.PID)
			if r.Caller.Session != "" {
				line += " in " + r.Caller.Session
			}
		}
		if r.Report != nil {
			line += fmt.Sprintf(" %s: %s %s %d", r.Target.Session, r.Reason, r.Report.Verdict, len(r.Report.Processes))
		}
		got = append(got, line)
	}
	want := []string{
		"create done by 1000/22", "end refused by 1001/23", "end refused by 1000/100 in " + s.ID, "end refused by 1000/22",
		"end done by 1000/22 " + s.ID + ": end clean 1", "create done by 1000/22", "end done " + other.ID + ": root_exit clean 0", "end refused by 1001/23",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func mustRecord(t *testing.T, line []byte) (r access.AuditRecord) {
	t.Helper()
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// TestAuditFails: an audit log that cannot be written degrades the daemon but prevents
// no end.
func TestAuditFails(t *testing.T) {
	w := daemontest.New(t, func(w *daemontest.Daemon) { os.Mkdir(filepath.Join(w.Dir, "audit.jsonl"), 0o700) })
	s := w.Session("user", 100, api.NewSession{GraceMS: daemontest.MS(0)})
	w.Do("user", "POST", "/v1/sessions/"+s.ID+"/end", nil)
	if r := w.Receipt(s.ID); r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
	if !w.Degraded("audit records are being lost") {
		t.Errorf("degraded %q", w.Status().Degraded)
	}
}
