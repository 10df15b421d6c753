package ink

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"charm.land/bubbles/v2/key"

	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const document = "../../docs/TOP.md"

var update = flag.Bool("update", false, "write the keys into "+document)

// sectionOfKeys is the section of docs/TOP.md about the keys.
func sectionOfKeys() string {
	var b strings.Builder
	b.WriteString("## Keys\n")
	for _, g := range NewKeys().Groups() {
		fmt.Fprintf(&b, "\n### %s\n\n| key | does |\n|---|---|\n", g.Title)
		for _, k := range g.Keys {
			fmt.Fprintf(&b, "| `%s` | %s |\n", k.Help().Key, k.Help().Desc)
		}
	}
	return b.String()
}

// docs/TOP.md has the keys of the key map. With -update they are written.
func TestDocument(t *testing.T) {
	require.NoError(t, page.Keep(document, "keys", sectionOfKeys(), *update))
}

// In each place a key does one thing, and every key is documented.
func TestKeys(t *testing.T) {
	m := NewKeys()
	documented := map[string]bool{}
	for _, g := range m.Groups() {
		for _, b := range g.Keys {
			documented[b.Help().Key+b.Help().Desc] = true
		}
	}
	for _, place := range [][]key.Binding{bindings(m.TreeKeys), bindings(m.Timeline), bindings(m.Dialog)} {
		seen := map[string]string{}
		for _, b := range place {
			if b.Help().Key == "" || b.Help().Desc == "" || !documented[b.Help().Key+b.Help().Desc] {
				t.Errorf("%v is not documented", b.Keys())
			}
			for _, name := range b.Keys() {
				if other, taken := seen[name]; taken {
					t.Errorf("%s is for %q and for %q", name, other, b.Help().Desc)
				}
				seen[name] = b.Help().Desc
			}
		}
	}
}
