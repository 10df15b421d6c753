package main

import (
	"cmp"
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
	bold, faint, underline, reverse bool
	front, back                     string // colours; "": the terminal's own
}

// run is text of one style that starts at a column.
type run struct {
	style
	column int
	text   string
}

// runs cuts a line where the style changes. Text that is not ASCII is a run of its own,
// because its width may differ in another font.
func runs(line string) (all []run) {
	now, column := style{}, 0
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
	for i := 0; i < len(codes); i++ {
		n, _ := strconv.Atoi(codes[i])
		switch {
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 4:
			s.underline = true
		case n == 7:
			s.reverse = true
		case n == 22:
			s.bold, s.faint = false, false
		case n == 24:
			s.underline = false
		case n == 27:
			s.reverse = false
		case n >= 30 && n <= 37:
			s.front = palette[n-30]
		case n >= 40 && n <= 47:
			s.back = palette[n-40]
		case n == 38 || n == 48:
			c, used := indexed(codes[i+1:])
			i += used
			if n == 38 {
				s.front = c
			} else {
				s.back = c
			}
		case n == 39:
			s.front = ""
		case n == 49:
			s.back = ""
		case n >= 90 && n <= 97:
			s.front = palette[n-90+8]
		case n >= 100 && n <= 107:
			s.back = palette[n-100+8]
		}
	}
}

// indexed reads what follows 38 or 48, and how many codes it used: 5;N is one of the
// 256 colours, 2;R;G;B any.
func indexed(codes []string) (color string, used int) {
	number := func(i int) int {
		if i >= len(codes) {
			return 0
		}
		n, _ := strconv.Atoi(codes[i])
		return min(max(n, 0), 255)
	}
	switch number(0) {
	case 5:
		return color256(number(1)), 2
	case 2:
		return fmt.Sprintf("#%02x%02x%02x", number(1), number(2), number(3)), 4
	}
	return "", 0
}

// color256 is one of xterm's 256 colours.
func color256(n int) string {
	switch {
	case n < 16:
		return palette[n]
	case n < 232:
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + 40*v
		}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}

// colors are the colours of letters and of their background, "" for the picture's own.
func (s style) colors() (front, back string) {
	front, back = s.front, s.back
	if s.reverse {
		front, back = cmp.Or(back, background), cmp.Or(front, foreground)
	}
	return front, back
}

// attributes are the SVG attributes of the style.
func (s style) attributes() string {
	var b strings.Builder
	if front, _ := s.colors(); front != "" {
		fmt.Fprintf(&b, ` fill="%s"`, front)
	}
	if s.bold {
		b.WriteString(` font-weight="bold"`)
	}
	if s.faint {
		b.WriteString(` opacity="0.6"`)
	}
	if s.underline {
		b.WriteString(` text-decoration="underline"`)
	}
	return b.String()
}
