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
	got := runs("a \x1b[1m\x1b[36mb\x1b[0m⚑c\x1b[2;91md\x1b[22;39me")
	want := []run{
		{style{color: -1}, 0, "a "}, {style{bold: true, color: 6}, 2, "b"}, {style{color: -1}, 3, "⚑"}, {style{color: -1}, 4, "c"},
		{style{faint: true, color: 9}, 5, "d"}, {style{color: -1}, 6, "e"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Whatever a process calls itself, the picture stays one.
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
