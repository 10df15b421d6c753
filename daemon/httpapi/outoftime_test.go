//go:build linux

package httpapi

import (
	"context"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// TestOutOfTime: a search that was cut off and found no process does not report that nobody holds the port.
func TestOutOfTime(t *testing.T) {
	late, cancel := context.WithCancel(t.Context())
	cancel()
	held := api.Why{Process: api.Process{Ref: api.Ref{PID: 7}}}
	for what, tt := range map[string]struct {
		ctx  context.Context
		d    api.Holders
		want bool
	}{
		"nothing":                     {late, api.Holders{}, true},
		"a socket without its holder": {late, api.Holders{Items: []api.Why{{}}}, true},
		"a holder":                    {late, api.Holders{Items: []api.Why{{}, held}}, false},
		"a hidden holder":             {late, api.Holders{Hidden: 1}, false},
		"in time":                     {t.Context(), api.Holders{Items: []api.Why{{}}}, false},
	} {
		if got := outOfTime(tt.ctx, &tt.d); got != tt.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	if e := api.NewError(api.CodeTimedOut, "", ""); e.Exit != 8 {
		t.Errorf("exit code %d", e.Exit)
	}
}
