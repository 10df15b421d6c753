package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestCode(t *testing.T) {
	notFound := api.NewError(api.CodeNotFound, "session x: not found", "")
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("disk full"), api.ExitFailed},
		{notFound, api.ExitNotFound},
		{fmt.Errorf("end: %w", notFound), api.ExitNotFound},
		{&api.UnreachableError{Socket: "/s", Err: errors.New("refused")}, api.ExitUnreachable},
		{Usage("ls: unknown flag"), api.ExitUsage},
		{Silent(api.ExitLeft), api.ExitLeft},
		{Errorf(api.ExitDenied, "end: %w", notFound), api.ExitDenied}, // the command's own word counts
	} {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%#v: %d, want %d", tt.err, got, tt.want)
		}
	}
	require.NoError(t, Silent(api.ExitOK))
}
