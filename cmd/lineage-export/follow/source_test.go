//go:build linux

package follow

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var (
	secretArgv = []string{"agent", "--token=s3cret", "hush"}
	hiddenArgv = []string{"agent", "--token=[redacted]", "[redacted]"}
)

// secretive is a daemon whose documents have a secret in every command line: root and the
// sessions' own user get them whole.
func secretive() *apitest.Client {
	argv := func() []string { return slices.Clone(secretArgv) }
	return &apitest.Client{Has: apitest.Has{
		Policy:   hiding("hush"),
		Sessions: []api.Session{{ID: "aaaaaa", Root: &api.Process{Argv: argv()}, Token: "s3cret"}},
		Report: &api.Report{Verdict: api.VerdictClean, Processes: []api.Outcome{{Argv: argv()}},
			Delegated: []api.Delegated{{}, {Asked: &api.Process{Argv: argv()}}}},
	}}
}

// TestSourceHides: no document of the source has a secret, of those that everybody knows and of
// those of the policy.
func TestSourceHides(t *testing.T) {
	s, err := newSource(t.Context(), secretive())
	require.NoError(t, err)
	d, err := s.Session("aaaaaa")
	require.NoError(t, err)
	r, err := s.report("aaaaaa")
	require.NoError(t, err)
	e := &api.Event{
		Process: &api.Process{Argv: secretArgv},
		Was:     &api.Process{Argv: secretArgv},
		Subject: &api.Session{Root: &api.Process{Argv: secretArgv, FirstArgv: secretArgv}, Token: "x"},
	}
	s.Hide(e)
	for what, argv := range map[string][]string{"root": d.Root.Argv, "process": e.Process.Argv, "before": e.Was.Argv,
		"subject": e.Subject.Root.Argv, "receipt": r.Processes[0].Argv, "request": r.Delegated[1].Asked.Argv} {
		if !slices.Equal(argv, hiddenArgv) {
			t.Errorf("%s: %q, want %q", what, argv, hiddenArgv)
		}
	}
	if d.Token != "" || e.Subject.Token != "" || e.Subject.Root.FirstArgv != nil {
		t.Error("the session has its token")
	}
}
