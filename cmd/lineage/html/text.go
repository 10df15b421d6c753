package html

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api/display"
)

// escaped is how many bytes html/template writes for a byte.
func escaped(b byte) int {
	switch b {
	case '<', '>':
		return len("&lt;")
	case '&', '"', '\'', '+':
		return len("&amp;")
	}
	return 1
}

// clip cuts a text to what takes at most limit bytes in the page.
func clip(text string, limit int) string {
	n, cut := 0, 0 // cut: where there is room for "…"
	for i := range len(text) {
		if n += escaped(text[i]); n > limit {
			return text[:cut] + "…"
		}
		if n <= limit-len("…") && i+1 < len(text) && utf8.RuneStart(text[i+1]) {
			cut = i + 1
		}
	}
	return text
}

// leastText is how many bytes a command has in the page, however many there are.
const leastText = 64

// share is how many bytes each of n texts may take in the page, so that they take at most total, or
// leastText each.
func share(total, n int, text func(i int) string) int {
	sizes := make([]int, n)
	for i := range sizes {
		for _, b := range []byte(text(i)) {
			sizes[i] += escaped(b)
		}
	}
	limit := maxCommand
	for limit > leastText {
		sum := 0
		for _, size := range sizes {
			sum += min(size, limit)
		}
		if sum <= total {
			break
		}
		limit /= 2
	}
	return limit
}

// lasted is how long something took.
func lasted(from, until uint64) string {
	return display.Duration(time.Duration(max(until, from) - from))
}

func stamp(t *time.Time) string {
	if t == nil {
		return "not known"
	}
	return t.Local().Format("2006-01-02 15:04:05.000 MST")
}

// class is a word of the daemon as a class of style.css, or "" without one of that name. So an
// attribute has only words of ours.
func class[S ~string](word S) string {
	switch word {
	case "clean", "active", "ending", "condemned", "ended", "root", "gap", "term", "kill", "left", "kept", "branch":
		return string(word)
	}
	return ""
}

// scale is the time that the page shows, in ns of boottime.
type scale struct{ from, until uint64 }

// scale is from when the session began to the newest event.
func (p *Page) scale(sorted []*process) scale {
	s := scale{until: p.clock.now}
	switch doc := p.session; {
	case doc.Started != nil && p.clock.known:
		s.from = uint64(max(doc.Started.UnixNano()-p.clock.offset, 0))
	case doc.Root != nil:
		s.from = uint64(doc.Root.StartNS)
	case len(sorted) > 0:
		s.from = sorted[0].start()
	}
	s.until = max(s.until, s.from+1)
	return s
}

// after is a time as seconds since the session began.
func (s scale) after(at uint64) string {
	d := time.Duration(int64(at) - int64(s.from))
	switch {
	case d < -time.Second:
		return "-" + display.Age(-d)
	case d < 1000*time.Second:
		return fmt.Sprintf("%.3fs", max(d, 0).Seconds())
	}
	return display.Age(d)
}

// percent is where a time is, from 0 to 100.
func (s scale) percent(at uint64) float64 {
	at = min(max(at, s.from), s.until)
	return 100 * float64(at-s.from) / float64(s.until-s.from)
}

// bar is the part of the width that a period has; a short one is still visible.
func (s scale) bar(from, until uint64) (x, width string) {
	const least = 0.1
	a, b := s.percent(from), s.percent(max(until, from))
	a = min(a, 100-least)
	return fmt.Sprintf("%.2f", a), fmt.Sprintf("%.2f", max(b-a, least))
}
