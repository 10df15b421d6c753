package document

import (
	"sync/atomic"
	"time"
)

// Clock tells the wall time at boottime 0, as the wall clock is now.
type Clock func() time.Time

func Fixed(zero time.Time) Clock { return func() time.Time { return zero } }

// clockStep is how far the wall clock has to be set, or to drift, before times change
// in documents: until then the same boottime always gives the same wall time.
const clockStep = 50 * time.Millisecond

// Following follows the wall clock.
func Following(now func() time.Time, boottime func() uint64) Clock {
	var last atomic.Pointer[time.Time]
	return func() time.Time {
		t := now().Add(-time.Duration(boottime())).Round(0)
		if old := last.Load(); old != nil && t.Sub(*old).Abs() < clockStep {
			return *old
		}
		last.Store(&t)
		return t
	}
}

// Zero is the wall time at boottime 0.
func (c Clock) Zero() time.Time { return c() }

// Wall is the wall time of a boottime, nil for 0.
func (c Clock) Wall(boottime uint64) *time.Time {
	if boottime == 0 {
		return nil
	}
	return new(c.Zero().Add(time.Duration(boottime)).UTC())
}
