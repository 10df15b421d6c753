package lineage

import (
	"math"
	"slices"
)

// Usage is what a group of processes used at a time. Processes counts those that hold a
// PID: live ones and zombies.
type Usage struct {
	At        uint64 // boottime, ns
	Processes int
	RSS       uint64 // bytes
}

// The samples of a Trend: one a minute, for three hours.
const (
	trendPeriod  = 60e9 // ns
	trendSamples = 180
	// With fewer samples, or less than ten minutes, the slope would be the noise of a
	// build or a test.
	trendLeast = 10
	trendSpan  = 10 * trendPeriod
)

// Trend is the recent past of a group, bounded. The zero value is empty.
type Trend struct{ samples []Usage }

// Due tells whether a sample at that time would be taken.
func (t *Trend) Due(at uint64) bool {
	return len(t.samples) == 0 || at >= t.samples[len(t.samples)-1].At+trendPeriod
}

// Add takes a sample if it is due. The oldest is dropped if there is no room.
func (t *Trend) Add(u Usage) {
	if !t.Due(u.At) {
		return
	}
	if len(t.samples) == trendSamples {
		copy(t.samples, t.samples[1:])
		t.samples = t.samples[:trendSamples-1]
	}
	t.samples = append(t.samples, u)
}

// Last is the newest sample, zero if there is none.
func (t *Trend) Last() Usage {
	if len(t.samples) == 0 {
		return Usage{}
	}
	return t.samples[len(t.samples)-1]
}

// Span is the time between the oldest and the newest sample in ns.
func (t *Trend) Span() uint64 {
	if len(t.samples) == 0 {
		return 0
	}
	return t.Last().At - t.samples[0].At
}

// Growth is what a group gains in an hour.
type Growth struct {
	Processes float64 // per hour
	RSS       float64 // bytes per hour
}

// Growth is the median of the slopes between all pairs of samples (Theil and Sen): up
// to 29 % of the samples may be anything, such as a short build, and change little. It
// is not ok while there is too little data: fewer than ten samples, or less than ten
// minutes between the first and the last.
func (t *Trend) Growth() (g Growth, ok bool) {
	if len(t.samples) < trendLeast || t.Span() < trendSpan {
		return Growth{}, false
	}
	n := len(t.samples) * (len(t.samples) - 1) / 2
	processes, rss := make([]float64, 0, n), make([]float64, 0, n)
	for i, a := range t.samples {
		for _, b := range t.samples[i+1:] {
			hours := float64(b.At-a.At) / 3600e9
			processes = append(processes, float64(b.Processes-a.Processes)/hours)
			rss = append(rss, (float64(b.RSS)-float64(a.RSS))/hours)
		}
	}
	return Growth{median(processes), median(rss)}, true
}

// median sorts its argument.
func median(x []float64) float64 {
	slices.Sort(x)
	m := len(x) / 2
	if len(x)%2 == 1 {
		return x[m]
	}
	return (x[m-1] + x[m]) / 2
}

// HoursUntil is the time in which perHour of growth uses up room; not ok if there is no
// growth, or it takes more than 30 days: the growth of some hours says nothing about later.
func HoursUntil(room, perHour float64) (hours float64, ok bool) {
	const month = 30 * 24
	if !(perHour > 0) || math.IsNaN(room) {
		return 0, false
	}
	hours = max(room, 0) / perHour
	return hours, hours <= month
}
