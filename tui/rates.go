package tui

import (
	"time"

	"github.com/lineage-ebpf/lineage/tui/picture"
)

// samples is how many seconds the sparklines remember.
const samples = 60

// rates is the recent past: forks a second, and the CPU% of each session.
type rates struct {
	at       time.Time
	total    uint64
	forks    float64 // in the last second
	sessions map[string][]float64
	primed   bool
}

// sample records the current values. It is called once a second.
func (r *rates) sample(now time.Time, forks uint64, p *picture.Picture) {
	seconds := now.Sub(r.at).Seconds()
	if r.primed && seconds <= 0 {
		return
	}
	r.forks = 0
	if r.primed && forks >= r.total { // less: another daemon counts from 0
		r.forks = float64(forks-r.total) / seconds
	}
	before := r.sessions
	r.sessions = make(map[string][]float64, len(before))
	p.AllSessions(func(s *picture.Row) {
		all := append(before[s.Session.ID], p.CPU(s))
		r.sessions[s.Session.ID] = all[max(len(all)-samples, 0):]
	})
	r.at, r.total, r.primed = now, forks, true
}
