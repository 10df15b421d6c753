package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"testing"
)

func TestRuns(t *testing.T) {
	got := runs("a \x1b[1m\x1b[36mb\x1b[0m⚑c\x1b[2;91md\x1b[22;39me\x1b[4;7mf\x1b[27;24;48;5;24;38;5;240mg\x1b[49;38;2;1;2;3mh")
	want := []run{
		{style{}, 0, "a "}, {style{bold: true, front: palette[6]}, 2, "b"}, {style{}, 3, "⚑"}, {style{}, 4, "c"},
		{style{faint: true, front: palette[9]}, 5, "d"}, {style{}, 6, "e"},
		{style{underline: true, reverse: true}, 7, "f"}, {style{front: "#585858", back: "#005f87"}, 8, "g"}, {style{front: "#010203"}, 9, "h"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Whatever a process calls itself, the picture stays valid XML.
func TestDrawIsXML(t *testing.T) {
	for _, line := range []string{"<script>&amp;\"'", "\x1b[", "\x1b]0;x", "\x1b[999m\x1b", "\xff\x1b[1", ""} {
		var b bytes.Buffer
		draw(&b, line, []string{line})
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
