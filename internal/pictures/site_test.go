package main

import (
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// site is the folder of "make site".
func site(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LNGTEST_SITE")
	if dir == "" {
		t.Skip("make site runs it")
	}
	return dir
}

var (
	reference = regexp.MustCompile(`\b(href|src)="([^"]*)"`)
	anchor    = regexp.MustCompile(`\bid="([^"]*)"`)
	loaded    = regexp.MustCompile(`(?:<(?:script|img|iframe|source)\b[^>]*\bsrc="|<link\b[^>]*\bhref="|url\(["']?|@import ["']?)(?:https?:)?//[^"')]*`)
)

// TestSiteLinks: each link inside the site leads to a file, and to a heading that is there; no page and
// no style loads anything from the network.
func TestSiteLinks(t *testing.T) {
	dir := site(t)
	pages := make(map[string]string)
	anchors := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || ext != ".html" && ext != ".css" {
			return err
		}
		text := string(require.ReadFile(t, path))
		for _, u := range loaded.FindAllString(text, -1) {
			t.Errorf("%s loads %s", path, u)
		}
		if strings.HasSuffix(path, ".html") {
			pages[path] = text
		}
		for _, id := range anchor.FindAllStringSubmatch(text, -1) {
			anchors[path+"#"+id[1]] = true
		}
		return nil
	}))
	links := 0
	for page, text := range pages {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(html.UnescapeString(m[2]))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			links++
			to := page
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(page), u.Path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if u.Fragment != "" && !anchors[to+"#"+u.Fragment] {
				t.Errorf("%s: %s has no %q", page, to, u.Fragment)
			}
		}
	}
	if len(pages) < 25 || links < 1000 {
		t.Errorf("%d pages, %d links", len(pages), links)
	}
	t.Logf("figure: %d pages, %d links inside, none to the network that a page loads", len(pages), links)
}

// TestSiteSearch: search finds words of the pages, from a folder.
func TestSiteSearch(t *testing.T) {
	dir := site(t)
	for words, page := range map[string]string{
		"fork bomb":      "README.html",
		"DaemonSet":      "docs/INSTALL.html",
		"self check":     "docs/MONITORING.html",
		"lngtestnowhere": "",
	} {
		found := regexp.MustCompile(`<ul class="search">.*?</ul>`).FindString(dump(t, "file://"+dir+"/search.html?q="+url.QueryEscape(words)))
		want := fmt.Sprintf(`<a href="%s"`, page)
		if page == "" {
			want = `<ul class="search"></ul>`
		}
		if !strings.Contains(found, want) {
			t.Errorf("%s: no %s in %q", words, want, found)
		}
	}
}
