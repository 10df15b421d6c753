//go:build linux

// Package accesstest checks the audit logs that the daemons of tests leave.
package accesstest

import (
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Verify checks the log at path, if one can be read there: no record was changed, none is missing, and
// no receipt contradicts itself, whatever the test did.
func Verify(t testing.TB, path string) {
	t.Helper()
	files, done, err := access.OpenAuditFiles(path)
	if err != nil {
		return // the test had no daemon, or it put something else there
	}
	defer done()
	v, err := access.VerifyAudit(files, nil, access.AuditExpect{})
	require.NoError(t, err)
	for _, why := range v.Findings {
		t.Error(why)
	}
}
