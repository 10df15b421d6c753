//go:build linux

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestHeaders: a file of headers is read as a whole or refused, and an error repeats nothing of it.
func TestHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]any{
		"# of the receiver\n\nAuthorization: Bearer s3cret\r\nX-Scope:a:b\nx-scope: c\n": http.Header{"Authorization": {"Bearer s3cret"}, "X-Scope": {"a:b", "c"}},
		"":                            "it has no header",
		"# s3cret\n":                  "it has no header",
		"A: b\ns3cret":                "line 2 is not",
		": s3cret":                    "line 1 is not",
		"A b: s3cret":                 "line 1 is not",
		"A: s3cret\x00":               "line 1 is not",
		strings.Repeat("s3cret", 1e5): "a line is too long",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := readHeader(path)
		if why, bad := want.(string); bad {
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%.40q: %v, want %s", text, err, why)
			}
		} else if err != nil || !reflect.DeepEqual(any(got), want) {
			t.Errorf("%.40q: %v, %v", text, got, err)
		}
	}
	if h, err := readHeader(""); len(h) != 0 || err != nil {
		t.Errorf("without a file: %v, %v", h, err)
	}
}
