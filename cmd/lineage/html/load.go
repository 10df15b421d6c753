package html

// maxSamples bounds the curve of the live processes.
const maxSamples = 4096

// load is how many processes were alive, over time.
type load struct {
	live, peak int
	samples    []sample
}

type sample struct {
	at   uint64 // ns
	live int
}

// add notes that a process was born, 1, or died, -1. When there are too many samples, every two of
// them become one, the higher.
func (l *load) add(at uint64, by int) {
	l.live = max(l.live+by, 0)
	l.peak = max(l.peak, l.live)
	if n := len(l.samples); n > 0 && l.samples[n-1].at >= at {
		at = l.samples[n-1].at // events of two CPUs may be slightly out of order
	}
	l.samples = append(l.samples, sample{at, l.live})
	if len(l.samples) < maxSamples {
		return
	}
	half := l.samples[:0]
	for i := 0; i+1 < len(l.samples); i += 2 {
		s := l.samples[i]
		if l.samples[i+1].live > s.live {
			s = l.samples[i+1]
		}
		half = append(half, s)
	}
	l.samples = half
}
