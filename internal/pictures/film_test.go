package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

const film = "\f100\n$ \n\f200\n$ ls\n\f700\n$ ls\n<a>\n"

func TestReadFrames(t *testing.T) {
	got, err := readFrames(strings.NewReader(film))
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b frame) bool { return a.lasts == b.lasts && slices.Equal(a.lines, b.lines) }
	want := []frame{{100 * time.Millisecond, []string{"$ "}}, {200 * time.Millisecond, []string{"$ ls"}}, {700 * time.Millisecond, []string{"$ ls", "<a>"}}}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"", "a\n", "\f\na\n", "\f0\n", "\f-1\n", "\fx\n"} {
		if got, err := readFrames(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

// TestPlay: each line is drawn once for the frames in which it is the same, and a
// viewer without animation shows the last frame only.
func TestPlay(t *testing.T) {
	var b bytes.Buffer
	if err := copyPicture(&b, strings.NewReader(film), "t", true); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	for _, once := range []string{">$</text>", ">$ ls</text>", ">&lt;a&gt;</text>",
		".s0 { visibility: hidden }", "k0 { 0% { visibility: hidden } 0.000% { visibility: visible } 10.000% { visibility: hidden } }",
		"k1 { 0% { visibility: hidden } 10.000% { visibility: visible } }", "1.00s step-end infinite"} {
		if n := strings.Count(svg, once); n != 1 {
			t.Errorf("%d times %q in\n%s", n, once, svg)
		}
	}
	for _, never := range []string{".s1 { visibility: hidden }", ".s2 { visibility: hidden }"} {
		if strings.Contains(svg, never) {
			t.Errorf("%q in\n%s", never, svg)
		}
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
