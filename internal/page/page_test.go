package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	require.NoError(t, os.WriteFile(path, []byte("a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"), 0o644))
	require.NoError(t, Write(path, "x", "new"))
	got, err := os.ReadFile(path)
	if want := "a\n<!-- begin x -->\n\nnew\n<!-- end x -->\nb\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if err := Write(path, "y", "new"); err == nil {
		t.Error("a page without the place was written")
	}
	if err := Keep(path, "x", "newer", false); err == nil {
		t.Error("a page with another text is not out of date")
	}
	require.NoError(t, Keep(path, "x", "newer", true))
	require.NoError(t, Keep(path, "x", "newer", false))
}
