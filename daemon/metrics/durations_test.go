package metrics

import "testing"

func TestDurations(t *testing.T) {
	var s Durations
	for _, v := range []float64{0, 0.0001, 0.5, 600, 601} {
		s.Add(v)
	}
	h := s.Histogram()
	if h.Count != 5 || h.Sum != 1201.5001 || h.Buckets[0.0001] != 2 || h.Buckets[0.1] != 2 || h.Buckets[0.5] != 3 || h.Buckets[600] != 4 {
		t.Errorf("%+v", h)
	}
}
