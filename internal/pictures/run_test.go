package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"io"
	"reflect"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

func TestRuns(t *testing.T) {
	got := runs(linesOf("a \x1b[1m\x1b[36mb\x1b[0m⚑c\x1b[2;91md\x1b[22;39me\x1b[4;7mf\x1b[27;24;48;5;24;38;5;240mg\x1b[49;38;2;1;2;3mh")[0])
	basic := func(i int) ansi.BasicColor { return ansi.BasicColor(i) }
	want := []run{
		{uv.Style{}, 0, "a "}, {uv.Style{Attrs: uv.AttrBold, Fg: basic(6)}, 2, "b"}, {uv.Style{}, 3, "⚑"}, {uv.Style{}, 4, "c"},
		{uv.Style{Attrs: uv.AttrFaint, Fg: basic(9)}, 5, "d"}, {uv.Style{}, 6, "e"},
		{uv.Style{Underline: uv.UnderlineSingle, Attrs: uv.AttrReverse}, 7, "f"}, {uv.Style{Fg: ansi.IndexedColor(240), Bg: ansi.IndexedColor(24)}, 8, "g"},
		{uv.Style{Fg: color.RGBA{1, 2, 3, 255}}, 9, "h"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for i, colors := range map[int][2]string{0: {}, 1: {palette[6]}, 6: {background, foreground}, 7: {"#585858", "#005f87"}, 8: {"#010203"}} {
		if front, back := got[i].colors(); front != colors[0] || back != colors[1] {
			t.Errorf("%q has %q on %q, want %q", got[i].text, front, back, colors)
		}
	}
}

// TestWhole: tmux says once that two lines in a row have a colour.
func TestWhole(t *testing.T) {
	lines := linesOf("a \x1b[34m│\n╰─\n\x1b[39m $\nb")
	for i, want := range []string{"", palette[4], "", ""} {
		got := runs(lines[i])
		if front, _ := got[0].colors(); front != want {
			t.Errorf("line %d begins with %q, want %q", i, front, want)
		}
	}
}

// TestDrawColumns: a browser may draw two blanks as one, so what follows them has its own place.
func TestDrawColumns(t *testing.T) {
	var b bytes.Buffer
	draw(&b, "", "a b  c\n")
	for _, want := range []string{`<text x="12.0" y="24" textLength="25.2">a b</text>`, `<text x="54.0" y="24">c</text>`} {
		if !bytes.Contains(b.Bytes(), []byte(want)) {
			t.Errorf("no %s in\n%s", want, &b)
		}
	}
}

// Whatever a process calls itself, the picture stays valid XML.
func TestDrawIsXML(t *testing.T) {
	for _, line := range []string{"<script>&amp;\"'", "\x1b[", "\x1b]0;x", "\x1b[999m\x1b", "\xff\x1b[1", ""} {
		var b bytes.Buffer
		draw(&b, line, line)
		d := xml.NewDecoder(&b)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
}
