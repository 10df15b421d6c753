package metrics

// endBuckets are the upper bounds of the buckets of end durations, in seconds:
// from what the kernel needs for a few members to the longest grace.
var endBuckets = [...]float64{0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 600}

// Durations counts durations of ends in seconds, by endBuckets.
type Durations struct {
	count   uint64
	sum     float64
	buckets [len(endBuckets)]uint64 // cumulative
}

// Add counts one.
func (d *Durations) Add(v float64) {
	d.count++
	d.sum += v
	for i := len(endBuckets) - 1; i >= 0 && v <= endBuckets[i]; i-- {
		d.buckets[i]++
	}
}

// Histogram returns what was counted.
func (d *Durations) Histogram() Histogram {
	h := Histogram{Count: d.count, Sum: d.sum, Buckets: make(map[float64]uint64, len(endBuckets))}
	for i, bound := range endBuckets {
		h.Buckets[bound] = d.buckets[i]
	}
	return h
}
