package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"html"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// browser is the path of Chromium.
func browser(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium; run make test-pictures")
	}
	return path
}

// chromium opens a page, and returns what the page's script gives to report.
func chromium(t *testing.T, page string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	page = "<!doctype html><meta charset=utf-8><pre id=report></pre><script>const report = text => document.getElementById('report').textContent = text</script>" + page
	require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	out := dump(t, "file://"+file, flags...)
	reported := regexp.MustCompile(`<pre id="report">([^<]+)</pre>`).FindStringSubmatch(out)
	if reported == nil {
		t.Fatalf("no report in\n%s", out)
	}
	return html.UnescapeString(reported[1])
}

// dump opens an address, and returns the page as scripts left it.
func dump(t *testing.T, address string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	flags = append(flags, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-prefers-reduced-motion",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
		"--virtual-time-budget=1000", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "--dump-dom", address)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, browser(t), flags...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

// picture is what draw writes, or the README's animated one: its lines have an element g each.
type picture struct {
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	Style  string  `xml:"g>style"`
	Words  []words `xml:"g>text"`
	Lines  []struct {
		Class string  `xml:"class,attr"`
		Words []words `xml:"text"`
	} `xml:"g>g"`
}

type words struct {
	X    float64 `xml:"x,attr"`
	Y    float64 `xml:"y,attr"`
	Text string  `xml:",chardata"`
}

// TestColumns looks at the pictures of terminals as readers of the README do: as images in
// Chromium. Each letter is drawn in its own cell, and nothing where the terminal is blank, so
// columns stand under each other.
func TestColumns(t *testing.T) {
	browser(t)
	var table bytes.Buffer
	draw(&table, "", []string{"PID      \x1b[1mCOMMAND\x1b[0m    RSS", "1   bash   ⚑ a  1.0M", "\x1b[7m 22        sleep    12K \x1b[0m"})
	sources := map[string][]byte{"drawn": table.Bytes()}
	files, err := filepath.Glob("../../docs/pictures/[^d]*.svg")
	if err != nil || len(files) < 7 {
		t.Fatalf("pictures: %v, %v", files, err)
	}
	for _, file := range files {
		sources[filepath.Base(file)], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			var p picture
			require.NoError(t, xml.Unmarshal(source, &p))
			for _, l := range p.Lines {
				if !strings.Contains(p.Style, "."+l.Class+" { visibility: hidden }") {
					p.Words = append(p.Words, l.Words...)
				}
			}
			p.check(t, look(t, source))
		})
	}
}

// scale is how many pixels look has for a unit of a picture.
const scale = 2

// look is what Chromium shows of an image.
func look(t *testing.T, source []byte) image.Image {
	t.Helper()
	url := chromium(t, fmt.Sprintf(`<img src="data:image/svg+xml;base64,%s"><script>
onload = () => {
	const image = document.images[0], canvas = document.createElement("canvas")
	canvas.width = %[2]d * image.width, canvas.height = %[2]d * image.height
	canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height)
	report(canvas.toDataURL())
}</script>`, base64.StdEncoding.EncodeToString(source), scale))
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(url, "data:image/png;base64,"))
	require.NoError(t, err)
	seen, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	return seen
}

// check compares the cells of each line of the terminal with what is seen of them.
func (p *picture) check(t *testing.T, seen image.Image) {
	t.Helper()
	lines := map[float64][]rune{} // by y
	for _, w := range p.Words {
		at := int((w.X-margin)/cellWidth + 0.5)
		for len(lines[w.Y]) < int((p.Width-2*margin)/cellWidth+0.5) {
			lines[w.Y] = append(lines[w.Y], ' ')
		}
		copy(lines[w.Y][at:], []rune(w.Text))
	}
	if len(lines) == 0 {
		t.Fatal("no text")
	}
	for y, line := range lines {
		var has []rune // what seems to be there
		for i, r := range line {
			// A glyph of another font may be wider than its cell, so what is blank has a blank middle.
			x, top, aside, above := margin+float64(i)*cellWidth, y-baseline, 0.0, 0.0
			if r == ' ' {
				aside, above = cellWidth/3, 2
			}
			cell := image.Rect(int(scale*(x+aside)), int(scale*(top+above)), int(scale*(x+cellWidth-aside)), int(scale*(top+cellHeight-above)))
			if block := r >= '▀' && r <= '▟'; ink(seen, cell) == (r != ' ') || block {
				has = append(has, r)
			} else if r == ' ' {
				has = append(has, '?')
			} else {
				has = append(has, ' ')
			}
		}
		if !slices.Equal(has, line) {
			t.Errorf("the line %q\n    is drawn as %q", string(line), string(has))
		}
	}
}

// ink says whether a part of an image has more than one colour.
func ink(seen image.Image, part image.Rectangle) bool {
	r0, g0, b0, _ := seen.At(part.Min.X, part.Min.Y).RGBA()
	far := func(a, b uint32) bool { return max(a, b)-min(a, b) > 24<<8 }
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			if r, g, b, _ := seen.At(x, y).RGBA(); far(r, r0) || far(g, g0) || far(b, b0) {
				return true
			}
		}
	}
	return false
}

// judge writes what is wrong with the diagram of a page: text that leaves its box, meets other text, is
// small, or hard to tell from what is behind it (WCAG's contrast of 4.5).
const judge = `<script>
const all = name => [...document.querySelectorAll("svg > " + name)].map(e => ({e, b: e.getBoundingClientRect(), s: getComputedStyle(e), t: e.textContent}))
const light = color => color.match(/\d+/g).slice(0, 3).map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
	.reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0)
const wrong = [], boxes = all("rect"), texts = all("text")
if (boxes.length < 4 || texts.length < 10) wrong.push("boxes " + boxes.length + ", texts " + texts.length)
if (matchMedia("(prefers-color-scheme: dark)").matches != (light(boxes[0].s.fill) < .2)) wrong.push("the background " + boxes[0].s.fill)
texts.forEach(({b, s, t}, i) => {
	const behind = boxes.findLast(o => o.b.left < b.left + b.width / 2 && o.b.right > b.left + b.width / 2 && o.b.top < b.top + b.height / 2 && o.b.bottom > b.top + b.height / 2)
	if (b.left < behind.b.left + 4 || b.right > behind.b.right - 4 || b.top < behind.b.top || b.bottom > behind.b.bottom) wrong.push("leaves its box: " + t)
	const [dark, bright] = [light(s.fill), light(behind.s.fill)].sort((a, b) => a - b)
	if ((bright + .05) / (dark + .05) < 4.5) wrong.push("contrast " + (bright + .05) / (dark + .05) + ": " + t)
	if (parseFloat(s.fontSize) < 12) wrong.push(s.fontSize + ": " + t)
	for (const o of texts.slice(0, i))
		if (b.left < o.b.right && o.b.left < b.right && b.top < o.b.bottom - 3 && o.b.top < b.bottom - 3) wrong.push("meets " + o.t + ": " + t)
})
report(JSON.stringify(wrong))
</script>`

// TestDiagrams looks at the diagrams in Chromium, dark and light.
func TestDiagrams(t *testing.T) {
	browser(t)
	files, err := filepath.Glob("../../docs/pictures/diagram-*.svg")
	if err != nil || len(files) < 2 {
		t.Fatalf("diagrams: %v, %v", files, err)
	}
	for _, file := range files {
		for scheme, name := range []string{"dark", "light"} {
			t.Run(filepath.Base(file)+" "+name, func(t *testing.T) {
				source := require.ReadFile(t, file)
				wrong := chromium(t, string(source)+judge, fmt.Sprint("--blink-settings=preferredColorScheme=", scheme))
				require.Equal(t, wrong, "[]")
			})
		}
	}
}
