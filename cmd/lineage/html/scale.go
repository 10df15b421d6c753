package html

import (
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api/display"
)

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
