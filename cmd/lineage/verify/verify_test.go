package verify

import (
	"context"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/daemon/audit/chain"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestForgotten: a session that the history lets go while its receipts are read is left out, as all older ones are.
func TestForgotten(t *testing.T) {
	c := &apitest.Client{}
	c.On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
		if id == "old" {
			return nil, api.NewError(api.CodeNotFound, "session old not found", "")
		}
		return &api.Report{Session: id, Verdict: api.VerdictClean, ConfirmedEmpty: true}, nil
	}
	c.On.Policy = func() (*api.Policy, error) { return &api.Policy{}, nil }
	ended := &api.Sessions{Items: []api.Session{{ID: "new", Verdict: api.VerdictClean}, {ID: "old"}}}
	v, err := Check(t.Context(), c, ended, func() ([]chain.File, func(), error) { return nil, func() {}, nil }, chain.Head{}, time.Now())
	require.NoError(t, err)
	if v.Receipts != 1 || len(v.Findings) != 0 {
		t.Errorf("%+v", v)
	}
}
