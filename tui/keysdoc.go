package tui

import (
	"fmt"
	"strings"
)

// KeysDocument is docs/KEYS.md.
func KeysDocument() string {
	var b strings.Builder
	b.WriteString(`# Keys of lineage top

<!-- Written from tui.KeyMap by tui/keys_test.go; "make docs" writes it again. -->
`)
	for _, g := range NewKeyMap().Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| key | does |\n|---|---|\n", g.Title)
		for _, k := range g.Keys {
			fmt.Fprintf(&b, "| `%s` | %s |\n", k.Help().Key, k.Help().Desc)
		}
	}
	b.WriteString(`
## In the dialog that ends

| key | does |
|---|---|
`)
	for _, k := range newDialogKeys().all() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Help().Key, k.Help().Desc)
	}
	return b.String()
}
