//go:build linux

package follow

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// secretive is a daemon whose documents have a secret in every command line: root and the
// sessions' own user get them whole.
type secretive struct{ api.Client }

var (
	secretArgv = []string{"agent", "--token=s3cret", "hush"}
	hiddenArgv = []string{"agent", "--token=[redacted]", "[redacted]"}
)

func (secretive) Policy(context.Context) (*api.Policy, error) {
	return &api.Policy{Items: []api.PolicyValue{{Key: "redact.0", Value: "hush"}}}, nil
}

func (secretive) Session(context.Context, string) (*api.Session, error) {
	return &api.Session{Root: &api.Process{Argv: slices.Clone(secretArgv)}, Token: "s3cret"}, nil
}

func (secretive) Report(context.Context, string, time.Duration) (*api.Report, error) {
	return &api.Report{Verdict: api.VerdictClean, Processes: []api.Outcome{{Argv: slices.Clone(secretArgv)}},
		Brokered: []api.Brokered{{}, {Asked: &api.Process{Argv: slices.Clone(secretArgv)}}}}, nil
}

// TestSourceHides: no document of the source has a secret, of those that everybody knows and of
// those of the policy.
func TestSourceHides(t *testing.T) {
	s, err := newSource(t.Context(), secretive{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Session("aaaaaa")
	if err != nil {
		t.Fatal(err)
	}
	r := s.report("aaaaaa")
	for what, argv := range map[string][]string{"root": d.Root.Argv, "receipt": r.Processes[0].Argv, "request": r.Brokered[1].Asked.Argv} {
		if !slices.Equal(argv, hiddenArgv) {
			t.Errorf("%s: %q, want %q", what, argv, hiddenArgv)
		}
	}
	if d.Token != "" {
		t.Error("the session has its token")
	}
}
