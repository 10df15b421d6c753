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

// whole has each line begin with the style in which the line before it ended, which tmux does not repeat.
func whole(lines []string) {
	var style uv.Style
	for i := range lines {
		if !style.IsZero() {
			lines[i] = style.String() + lines[i]
		}
		_, style = runs(lines[i])
	}
}

// runs cuts a line where the style changes, and returns the style at its end. Text that is not
// ASCII is a run of its own, because its width may differ in another font.
func runs(line string) (all []run, now uv.Style) {
	column, state, parser := 0, byte(0), ansi.NewParser()
	joins := false // the next letter, if it is ASCII, is of the last run
	for line != "" {
		text, width, n, next := ansi.DecodeSequence(line, state, parser)
		line, state = line[n:], next
		if width == 0 {
			if ansi.HasCsiPrefix(text) && ansi.Cmd(parser.Command()).Final() == 'm' {
				uv.ReadStyle(parser.Params(), &now)
			}
			joins = false
			continue
		}
		ascii := text[0] < utf8.RuneSelf
		if joins && ascii {
			all[len(all)-1].text += text
		} else {
			all = append(all, run{now, column, text})
		}
		joins = ascii
		column += width
	}
	return all, now
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
