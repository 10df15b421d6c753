//go:build linux

package stage

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// named finds a block with a name, and its text.
var named = regexp.MustCompile("(?ms)^<!-- recipe: ([a-z.-]+) -->\n```[a-z]+\n(.*?)^```$")

// Recipes are the named blocks of a document, unchanged, and the document.
func Recipes(t *testing.T, page string) (all map[string]string, text string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, page))
	require.NoError(t, err)
	all = map[string]string{}
	for _, m := range named.FindAllStringSubmatch(string(b), -1) {
		if all[m[1]] != "" {
			t.Fatalf("two recipes are called %s", m[1])
		}
		all[m[1]] = m[2]
	}
	return all, string(b)
}
