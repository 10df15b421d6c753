package keys

import (
	"fmt"
	"strings"
)

// Document is the section of docs/TOP.md about the keys.
func Document() string {
	var b strings.Builder
	b.WriteString("## Keys\n")
	for _, g := range New().Groups() {
		fmt.Fprintf(&b, "\n### %s\n\n| key | does |\n|---|---|\n", g.Title)
		for _, k := range g.Keys {
			fmt.Fprintf(&b, "| `%s` | %s |\n", k.Help().Key, k.Help().Desc)
		}
	}
	b.WriteString(`
### With --mouse

| event | does |
|---|---|
| click on a row | select it; on the selected row: details |
| click on a fold mark | fold or unfold the row |
| click on a column's name | sort by it; again: reverse |
| wheel | scroll the pane below the pointer |
`)
	return b.String()
}
