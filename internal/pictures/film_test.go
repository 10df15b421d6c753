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

	"github.com/lineage-ebpf/lineage/internal/require"
)

const film = "\f100\n$ \n\f200\n$ ls\n\f700\n$ ls\n<a>\n"

func TestReadFrames(t *testing.T) {
	got, err := readFrames(strings.NewReader(film))
	require.NoError(t, err)
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

// TestPlay: the film begins with its last frame, which a viewer without animation shows alone, and
// each line is drawn once for the frames in which it is the same.
func TestPlay(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, copyPicture(&b, strings.NewReader(film), "t", true))
	svg := b.String()
	for want, n := range map[string]int{">$</text>": 1, ">$ ls</text>": 2, ">&lt;a&gt;</text>": 1,
		"k0 { 0% { visibility: hidden } 0.000% { visibility: visible } 70.000% { visibility: hidden } }":  1,
		"k1 { 0% { visibility: hidden } 70.000% { visibility: visible } 80.000% { visibility: hidden } }": 1,
		"k2 { 0% { visibility: hidden } 80.000% { visibility: visible } }":                                1, "1.00s step-end infinite": 1,
		".s0 { visibility: hidden }": 0, ".s1 { visibility: hidden }": 1, ".s2 { visibility: hidden }": 1} {
		if got := strings.Count(svg, want); got != n {
			t.Errorf("%d times %q, want %d, in\n%s", got, want, n, svg)
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
