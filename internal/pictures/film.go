package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// frame is what a terminal shows for some time.
type frame struct {
	lasts time.Duration
	lines []string
}

// readFrames reads frames: each begins with a line that has a form feed and its
// duration in milliseconds.
func readFrames(r io.Reader) (all []frame, err error) {
	in := bufio.NewScanner(r)
	for in.Scan() {
		if text, begins := strings.CutPrefix(in.Text(), "\f"); begins {
			ms, err := strconv.Atoi(text)
			if err != nil || ms <= 0 {
				return nil, fmt.Errorf("frame %d: invalid duration %q", len(all)+1, text)
			}
			all = append(all, frame{lasts: time.Duration(ms) * time.Millisecond})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("no form feed before the first line")
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, in.Text())
	}
	if len(all) == 0 && in.Err() == nil {
		return nil, fmt.Errorf("no frames")
	}
	for _, f := range all {
		whole(f.lines)
	}
	return all, in.Err()
}

// span is the time for which a line is shown, as numbers of frames; to is the first frame without it.
type span struct{ from, to int }

// play writes an animated picture, which begins with the result: the last frame. A line of the
// terminal is drawn once for the time in which it stays the same. A viewer without animation shows
// the result.
func play(w io.Writer, title string, frames []frame) {
	last := len(frames) - 1
	frames = slices.Concat(frames[last:], frames[:last])
	columns, rows := 0, 0
	times := make([]time.Duration, len(frames)+1)
	for i, f := range frames {
		times[i+1] = times[i] + f.lasts
		rows = max(rows, len(f.lines))
		for _, l := range f.lines {
			columns = max(columns, ansi.StringWidth(l))
		}
	}
	open(w, title, columns, rows)
	var spans []span
	var body strings.Builder
	for row := range rows {
		for _, s := range shown(frames, row) {
			n := slices.Index(spans, s)
			if n < 0 {
				n = len(spans)
				spans = append(spans, s)
			}
			fmt.Fprintf(&body, `<g class="s%d">`+"\n", n)
			drawLine(&body, row, frames[s.from].lines[row])
			body.WriteString("</g>\n")
		}
	}
	whole := times[len(frames)]
	percent := func(i int) float64 { return 100 * times[i].Seconds() / whole.Seconds() }
	fmt.Fprintln(w, "<style>@media (prefers-reduced-motion: no-preference) { g g { animation: "+
		fmt.Sprintf("%.2fs step-end infinite } }", whole.Seconds()))
	for n, s := range spans {
		if s.from > 0 {
			fmt.Fprintf(w, ".s%d { visibility: hidden }\n", n)
		}
		fmt.Fprintf(w, ".s%d { animation-name: k%d } @keyframes k%d { 0%% { visibility: hidden } %.3f%% { visibility: visible }", n, n, n, percent(s.from))
		if s.to < len(frames) {
			fmt.Fprintf(w, " %.3f%% { visibility: hidden }", percent(s.to))
		}
		fmt.Fprintln(w, " }")
	}
	fmt.Fprintln(w, "</style>")
	io.WriteString(w, body.String())
	shut(w)
}

// shown are the spans of one row in which it has the same text, blank ones left out.
func shown(frames []frame, row int) (all []span) {
	at := func(i int) string {
		if row < len(frames[i].lines) {
			return frames[i].lines[row]
		}
		return ""
	}
	for i := 0; i < len(frames); {
		j := i + 1
		for j < len(frames) && at(j) == at(i) {
			j++
		}
		if strings.TrimSpace(ansi.Strip(at(i))) != "" {
			all = append(all, span{i, j})
		}
		i = j
	}
	return all
}
