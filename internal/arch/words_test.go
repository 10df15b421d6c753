package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// The limits of what is written by hand. A new capability may raise them by 1,200 words and one
// page, with its reason here: what assures the claims (docs/ASSURANCE.md), an exec in a container as
// a session, stop with proof (halt, pause, the sender of a signal), signed commands and the link to a bus (docs/FLEET.md), and
// the servers and the store of a fleet.
const (
	mostWords = 35_000 + 6*1_200
	mostPages = 24 + 2
)

// written is in the first lines of a page that make writes as a whole.
var written = regexp.MustCompile(`(?m)\A(?:.*\n){0,4}?(?:<!-- )?Written (?:by|from) `)

// pages are the documents, from the top of the checkout.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/results/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		require.NoError(t, err)
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, "../../"))
		}
	}
	return all
}

// marked is what make writes into a page, between the lines "<!-- begin NAME -->" and
// "<!-- end NAME -->".
var marked = regexp.MustCompile(`(?ms)^<!-- begin [^>]*-->$.*?^<!-- end [^>]*-->$`)

// TestWords counts the words that are written by hand.
func TestWords(t *testing.T) {
	words, files := 0, 0
	for _, path := range pages(t) {
		text := read(t, path)
		if written.MatchString(text) {
			continue
		}
		n := len(strings.Fields(marked.ReplaceAllString(text, "")))
		t.Logf("%6d %s", n, path)
		words += n
		files++
	}
	t.Logf("%6d in %d pages", words, files)
	if words > mostWords {
		t.Errorf("the documents have %d words, the limit is %d", words, mostWords)
	}
	if files > mostPages {
		t.Errorf("there are %d documents, the limit is %d", files, mostPages)
	}
}

var (
	links    = regexp.MustCompile(`\]\(([^):\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fences   = regexp.MustCompile("(?ms)^```.*?^```$")
	dropped  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those that GitHub gives to the headings of a page.
func anchors(text string) (all []string) {
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// TestLinks: each relative link in a document leads to a file, and its anchor to a heading. Sphinx finds no folder.
func TestLinks(t *testing.T) {
	for _, path := range pages(t) {
		for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(read(t, path), ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if info, err := os.Stat("../../" + to); err != nil || info.IsDir() {
				t.Errorf("%s: no file %s", path, to)
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: no heading #%s in %s", path, anchor, to)
			}
		}
	}
}
