//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestSigned: a user who may not end root's session brings commands that operators have signed: one that needs two
// signatures is refused with one, and with both it ends the session, once; the receipt is the operator's.
func TestSigned(t *testing.T) {
	i := stage.New(t)
	policy := i.Policy("operators: [{name: ann, verbs: [end, halt], signatures: 2}, {name: ben, verbs: [end, halt], signatures: 2}]\n")
	home, err := os.MkdirTemp("", "lngtest-signed-") // the test's folder is root's
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	ann, ben := filepath.Join(home, "ann"), filepath.Join(home, "ben")
	for _, key := range []string{ann, ben} {
		stage.Key(t, key)
		require.NoError(t, os.Chown(key, stage.Nobody, stage.Nobody))
	}
	require.NoError(t, os.Chown(home, stage.Nobody, stage.Nobody))
	i.Operators(ann, ben)
	i.Daemon("--policy", policy)
	m := stage.NewMarker(t, t.TempDir())
	run := i.Run(m, []string{"--name", "signed", "--grace", "0s"}, "daemonise", "stay")
	m.Ready()
	id := i.Session("signed").ID
	file := filepath.Join(home, "command")
	as := func(code int, args ...string) *stage.Process {
		t.Helper()
		p := i.StartNobody(nil, args...).Wait()
		if p.Code() != code {
			t.Fatalf("%v: exit %d, want %d: %s", args, p.Code(), code, p)
		}
		return p
	}
	as(api.ExitNotFound, "end", id, "--yes")
	sign := []string{"end", id, "--yes", "--sign", ann, "--reason", "e2e"}
	require.Contains(t, as(api.ExitDenied, sign...).String(), "ann needs 2 signatures")
	as(api.ExitOK, append(sign, "--save", file)...)
	require.Contains(t, as(api.ExitDenied, "end", "--from", file, "--yes").String(), "ann needs 2 signatures")
	out := as(api.ExitOK, "end", "--from", file, "--yes", "--sign", ben, "-o", "json").String()
	var reply api.CommandReply
	var r api.CommandReceipt
	require.NoError(t, json.Unmarshal([]byte(out[strings.Index(out, "{"):strings.LastIndex(out, "}")+1]), &reply), json.Unmarshal([]byte(reply.Receipt), &r))
	if !r.Complete || len(r.Reports) != 1 || r.Reports[0].Session != id || r.Reports[0].Verdict != api.VerdictClean || strings.Join(r.Operators, " ") != "ann ben" {
		t.Errorf("receipt %s", reply.Receipt)
	}
	if by := i.Receipt(id).EndedBy; by == nil || by.Command != r.ID || by.UID != stage.Nobody {
		t.Errorf("ended by %+v", by)
	}
	m.MustBeGone()
	run.Wait()
	as(api.ExitDenied, "end", "--from", file, "--yes") // one signature; and with both it was accepted before
	require.Contains(t, i.Must("history", id).String(), "ended by ann and ben in signed command")
}
