package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

const background, foreground = "#0d1117", "#c9d1d9"

// palette is the terminal's sixteen colours.
var palette = [16]string{
	"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
}

// style is how letters look.
type style struct {
	bold, faint bool
	color       int // of the palette; -1: the terminal's own
}

// run is text of one style that starts at a column.
type run struct {
	style
	column int
	text   string
}

// runs cuts a line where the style changes. What is not ASCII is a run of its
// own, as another font may have it in another width.
func runs(line string) (all []run) {
	now, column := style{color: -1}, 0
	for line != "" {
		if codes, rest, ok := escape(line); ok {
			now.set(codes)
			line = rest
			continue
		}
		n := strings.IndexFunc(line, func(r rune) bool { return r == '\x1b' || r >= utf8.RuneSelf })
		switch {
		case n < 0:
			n = len(line)
		case n == 0:
			_, n = utf8.DecodeRuneInString(line)
		}
		all = append(all, run{now, column, line[:n]})
		column += ansi.StringWidth(line[:n])
		line = line[n:]
	}
	return all
}

// escape cuts a change of style off the front of a line.
func escape(line string) (codes []string, rest string, ok bool) {
	line, ok = strings.CutPrefix(line, "\x1b[")
	if !ok {
		return nil, "", false
	}
	text, rest, ok := strings.Cut(line, "m")
	return strings.Split(text, ";"), rest, ok
}

// set changes the style as SGR codes say.
func (s *style) set(codes []string) {
	for _, code := range codes {
		switch n, _ := strconv.Atoi(code); {
		case n == 0:
			*s = style{color: -1}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 22:
			s.bold, s.faint = false, false
		case n >= 30 && n <= 37:
			s.color = n - 30
		case n == 39:
			s.color = -1
		case n >= 90 && n <= 97:
			s.color = n - 90 + 8
		}
	}
}

// attributes are the style's in SVG.
func (s style) attributes() string {
	var b strings.Builder
	if s.color >= 0 {
		fmt.Fprintf(&b, ` fill="%s"`, palette[s.color])
	}
	if s.bold {
		b.WriteString(` font-weight="bold"`)
	}
	if s.faint {
		b.WriteString(` opacity="0.6"`)
	}
	return b.String()
}
