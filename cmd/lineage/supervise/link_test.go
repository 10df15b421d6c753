//go:build linux

package supervise

import (
	"context"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

// A daemon that is starting or stopping is asked again; any other refusal is the answer.
func TestLinkAsksAgain(t *testing.T) {
	for code, calls := range map[string]int{api.CodeStopping: 2, api.CodeStarting: 2, api.CodeDenied: 1} {
		dials := 0
		dial := func(context.Context) (api.Client, error) {
			dials++
			return &apitest.Client{}, nil
		}
		l := &link{connect: dial, dial: dial, client: &apitest.Client{}}
		n := 0
		_, err := ask(t.Context(), l, func(api.Client) (int, error) {
			if n++; n == 1 {
				return n, api.NewError(code, "lngtest", "")
			}
			return n, nil
		})
		if n != calls || dials != calls-1 || (err == nil) != (calls == 2) {
			t.Errorf("%s: %d calls, %d dials, %v", code, n, dials, err)
		}
	}
}
