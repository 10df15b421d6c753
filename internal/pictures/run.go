package main

import (
	"cmp"
	"fmt"
	"image/color"
	"strings"
	"unicode/utf8"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

const background, border, foreground = "#0d1117", "#30363d", "#c9d1d9"

// palette is the terminal's sixteen colours.
var palette = [16]string{
	"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
}

// run is text of one style that starts at a column.
type run struct {
	uv.Style
	column int
	text   string
}

// linesOf are the lines of a screen, all of the same width.
func linesOf(screen string) []uv.Line {
	all := uv.NewStyledString(strings.TrimSuffix(screen, "\n"))
	buffer := uv.NewScreenBuffer(all.Bounds().Dx(), all.Bounds().Dy())
	buffer.Method = ansi.GraphemeWidth
	all.Draw(buffer, buffer.Bounds())
	return buffer.Lines
}

// runs cuts a line where the style changes. Text that is not ASCII is a run of its own, because its
// width may differ in another font.
func runs(line uv.Line) (all []run) {
	column, joins := 0, false // joins: the next letter, if it is ASCII, is of the last run
	for _, c := range line {
		if c.Width == 0 {
			continue // the second half of a wide letter
		}
		ascii := c.Content[0] < utf8.RuneSelf
		if joins && ascii && c.Style == all[len(all)-1].Style {
			all[len(all)-1].text += c.Content
		} else {
			all = append(all, run{c.Style, column, c.Content})
		}
		joins = ascii
		column += c.Width
	}
	return all
}

// hex is a colour as SVG has it; "" for none.
func hex(c color.Color) string {
	switch c := c.(type) {
	case nil:
		return ""
	case ansi.BasicColor:
		return palette[c]
	case ansi.IndexedColor:
		if int(c) < len(palette) {
			return palette[c]
		}
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// colors are the colours of letters and of their background, "" for the picture's own.
func (r *run) colors() (front, back string) {
	front, back = hex(r.Fg), hex(r.Bg)
	if r.Attrs&uv.AttrReverse != 0 {
		front, back = cmp.Or(back, background), cmp.Or(front, foreground)
	}
	return front, back
}

// attributes are the SVG attributes of the style.
func (r *run) attributes() string {
	var b strings.Builder
	if front, _ := r.colors(); front != "" {
		fmt.Fprintf(&b, ` fill="%s"`, front)
	}
	if r.Attrs&uv.AttrBold != 0 {
		b.WriteString(` font-weight="bold"`)
	}
	if r.Attrs&uv.AttrFaint != 0 {
		b.WriteString(` opacity="0.6"`)
	}
	if r.Underline != uv.UnderlineNone {
		b.WriteString(` text-decoration="underline"`)
	}
	return b.String()
}
