package lineage

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

const minute = uint64(trendPeriod)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// A straight line has its slope, wherever it starts and however it is sampled.
func TestTrendOfALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr Trend
		at := rapid.Uint64Range(0, 1<<50).Draw(t, "start")
		begin := at
		perMinute := rapid.IntRange(-50, 50).Draw(t, "processes per minute")
		bytes := rapid.Int64Range(-1<<30, 1<<30).Draw(t, "bytes per minute")
		n := rapid.IntRange(trendLeast, 2*trendSamples).Draw(t, "samples")
		for range n {
			at += minute * rapid.Uint64Range(1, 3).Draw(t, "gap")
			m := int64((at - begin) / minute)
			tr.Add(Usage{At: at, Processes: 1<<20 + perMinute*int(m), RSS: uint64(1<<41 + bytes*m)})
		}
		g, ok := tr.Growth()
		if tr.Span() < trendSpan {
			if ok {
				t.Fatalf("an answer after %d ns", tr.Span())
			}
			return
		}
		if !ok || !near(g.Processes, float64(60*perMinute)) || !near(g.RSS, float64(60*bytes)) {
			t.Fatalf("growth %+v %v, want %d and %d", g, ok, 60*perMinute, 60*bytes)
		}
	})
}

// A fifth of the samples may be anything.
func TestTrendWithBursts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr Trend
		n := rapid.IntRange(20, trendSamples).Draw(t, "samples")
		perMinute := rapid.IntRange(0, 20).Draw(t, "per minute")
		odd := map[int]bool{}
		for range n / 5 {
			odd[rapid.IntRange(0, n-1).Draw(t, "burst at")] = true
		}
		for i := range n {
			u := Usage{At: uint64(i) * minute, Processes: 100 + perMinute*i}
			if odd[i] {
				u.Processes = rapid.IntRange(0, 30000).Draw(t, "burst")
			}
			tr.Add(u)
		}
		// The median stays between two slopes of the line itself.
		if g, ok := tr.Growth(); !ok || !near(g.Processes, float64(60*perMinute)) {
			t.Fatalf("growth %+v %v, want %d", g, ok, 60*perMinute)
		}
	})
}

// The samples are bounded, in order and never denser than one a minute.
func TestTrendIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr Trend
		at := uint64(0)
		for range rapid.IntRange(0, 3*trendSamples).Draw(t, "samples") {
			at += rapid.Uint64Range(0, 2*minute).Draw(t, "gap")
			due, before := tr.Due(at), tr.Last()
			tr.Add(Usage{At: at})
			if want := map[bool]Usage{true: {At: at}, false: before}[due]; tr.Last() != want {
				t.Fatalf("due %v at %d, last %+v", due, at, tr.Last())
			}
		}
		if len(tr.samples) > trendSamples {
			t.Fatalf("%d samples", len(tr.samples))
		}
		for i := 1; i < len(tr.samples); i++ {
			if tr.samples[i].At < tr.samples[i-1].At+minute {
				t.Fatalf("samples at %d and %d", tr.samples[i-1].At, tr.samples[i].At)
			}
		}
	})
}

func TestTrendTooShort(t *testing.T) {
	var tr Trend
	if _, ok := tr.Growth(); ok || tr.Span() != 0 || tr.Last() != (Usage{}) {
		t.Error("nothing says something")
	}
	for i := range uint64(11) {
		if _, ok := tr.Growth(); ok {
			t.Errorf("an answer from %d samples over %d minutes", len(tr.samples), tr.Span()/minute)
		}
		tr.Add(Usage{At: i * minute})
	}
	if g, ok := tr.Growth(); !ok || g != (Growth{}) {
		t.Errorf("growth %+v %v", g, ok)
	}
}

func TestHoursUntil(t *testing.T) {
	for _, c := range []struct {
		room, perHour, hours float64
		ok                   bool
	}{
		{100, 20, 5, true}, {0, 1, 0, true}, {-5, 1, 0, true}, {720, 1, 720, true}, {721, 1, 0, false},
		{100, 0, 0, false}, {100, -1, 0, false}, {1e9, 1, 0, false}, {math.NaN(), 1, 0, false}, {100, math.NaN(), 0, false},
	} {
		if hours, ok := HoursUntil(c.room, c.perHour); ok != c.ok || ok && !near(hours, c.hours) {
			t.Errorf("%v by %v: %v %v", c.room, c.perHour, hours, ok)
		}
	}
}
