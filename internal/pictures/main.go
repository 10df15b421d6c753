// pictures draws a terminal's text and colours, as "tmux capture-pane -e" prints them,
// from stdin, as an SVG on stdout.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

// The size of a cell, in units of the picture, for letters of fontSize. Cells are as high as
// letters, or the lines of frames have gaps.
const (
	cellWidth, cellHeight      = 8.4, 16
	fontSize, baseline, margin = 14, 12, 12
)

// phrase is text without a second blank in a row, which browsers draw as one unless each <text> has xml:space.
var phrase = regexp.MustCompile(`\S+( \S+)*`)

func main() {
	title := flag.String("title", "", "what the picture shows, in `words`")
	flag.Parse()
	if err := copyPicture(os.Stdout, os.Stdin, *title); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// copyPicture draws what it reads.
func copyPicture(w io.Writer, r io.Reader, title string) error {
	screen, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read the screen: %w", err)
	}
	out := bufio.NewWriter(w)
	draw(out, title, string(screen))
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// draw writes the picture of a screen.
func draw(w io.Writer, title, screen string) {
	lines := linesOf(screen)
	columns := len(lines[0])
	width, height := float64(columns)*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">
<title>%s</title>
<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="6" fill="%s" stroke="%s"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="%d" fill="%s">
`, width, height, width, height, text(title), width-1, height-1, background, border, fontSize, foreground)
	for row, l := range lines {
		drawLine(w, row, l)
	}
	fmt.Fprint(w, "</g>\n</svg>\n")
}

// drawLine writes one line of the terminal.
func drawLine(w io.Writer, row int, line uv.Line) {
	for _, r := range runs(line) {
		if _, back := r.colors(); back != "" {
			fmt.Fprintf(w, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
				margin+float64(r.column)*cellWidth, margin+row*cellHeight, float64(ansi.StringWidth(r.text))*cellWidth, cellHeight, back)
		}
		for _, at := range phrase.FindAllStringIndex(r.text, -1) {
			words := r.text[at[0]:at[1]]
			fmt.Fprintf(w, `<text x="%.1f" y="%d"%s%s>%s</text>`+"\n",
				margin+float64(r.column+at[0])*cellWidth, margin+row*cellHeight+baseline, r.attributes(), length(words), text(words))
		}
	}
}

// length is the attribute that has a viewer with another font give words as much room as they have
// on the terminal.
func length(words string) string {
	if n := ansi.StringWidth(words); n > 1 {
		return fmt.Sprintf(` textLength="%.1f"`, float64(n)*cellWidth)
	}
	return ""
}

// text makes s safe for XML, which has no control characters.
func text(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s))
}
