package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// samples is how many seconds the sparklines remember.
const samples = 60

// rates is the recent past of the whole host: forks a second, live processes.
type rates struct {
	at     time.Time
	total  uint64
	forks  []float64
	live   []float64
	primed bool
}

// sample notes what the status says now. It is called once a second.
func (r *rates) sample(now time.Time, s *api.WatchStatus) {
	seconds := now.Sub(r.at).Seconds()
	if r.primed && seconds <= 0 {
		return
	}
	perSecond := 0.0
	if r.primed && s.Forks >= r.total { // less: another daemon counts from 0
		perSecond = float64(s.Forks-r.total) / seconds
	}
	if r.primed {
		r.forks = remember(r.forks, perSecond)
	}
	r.live = remember(r.live, float64(s.Live))
	r.at, r.total, r.primed = now, s.Forks, true
}

func remember(values []float64, v float64) []float64 {
	if len(values) == samples {
		values = slices.Delete(values, 0, 1)
	}
	return append(values, v)
}

// now is the last forks a second.
func (r *rates) now() float64 {
	if len(r.forks) == 0 {
		return 0
	}
	return r.forks[len(r.forks)-1]
}

// spark draws the last values, at most so many, from 0 to their largest.
func spark(levels []string, values []float64, columns int) string {
	values = values[max(0, len(values)-columns):]
	most := 1.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteString(levels[int(v/most*float64(len(levels)-1)+0.5)])
	}
	return b.String()
}
