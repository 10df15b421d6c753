//go:build linux

package daemon

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// How much of one kind of message is logged: the first ones, and so many a
// second. How many were not is told with the next one, or within damperPeriod.
const (
	damperBurst  = 50
	damperRate   = 5
	damperPeriod = 10 * time.Second
	damperKinds  = 256 // beyond it they share one limit: messages are constants
	// Of all kinds together, errors apart: who can cause several must not fill the
	// disk with them either.
	damperAllBurst = 500
	damperAllRate  = 10
)

// damper keeps what can be caused from outside, such as refusals, from filling
// the log. It is a hook of zerolog's, and may be used from any goroutine.
type damper struct {
	log zerolog.Logger // without the damper

	mu    sync.Mutex
	kinds map[string]*damped
	all   *rate.Limiter

	stop chan struct{}
	done chan struct{}
}

// damped is one kind of message.
type damped struct {
	limit      *rate.Limiter
	suppressed uint64
	level      zerolog.Level
}

func newDamper(log zerolog.Logger) *damper {
	d := &damper{log: log, kinds: make(map[string]*damped), all: rate.NewLimiter(damperAllRate, damperAllBurst), stop: make(chan struct{}), done: make(chan struct{})}
	go d.run()
	return d
}

// Run lets an event through, with the number of those that were not, or not.
func (d *damper) Run(e *zerolog.Event, level zerolog.Level, message string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.kind(message)
	if !k.limit.Allow() || level < zerolog.ErrorLevel && !d.all.Allow() {
		k.suppressed++
		k.level = level
		e.Discard()
		return
	}
	if k.suppressed > 0 {
		e.Uint64(keySuppressed, k.suppressed)
		k.suppressed = 0
	}
}

func (d *damper) kind(message string) *damped {
	if len(d.kinds) >= damperKinds && d.kinds[message] == nil {
		message = ""
	}
	k := d.kinds[message]
	if k == nil {
		k = &damped{limit: rate.NewLimiter(damperRate, damperBurst)}
		d.kinds[message] = k
	}
	return k
}

func (d *damper) run() {
	defer close(d.done)
	tick := time.NewTicker(damperPeriod)
	defer tick.Stop()
	for {
		select {
		case <-d.stop:
			d.tell()
			return
		case <-tick.C:
			d.tell()
		}
	}
}

// tell says what was suppressed and no later message told.
func (d *damper) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for message, k := range d.kinds {
		if k.suppressed > 0 {
			d.log.WithLevel(k.level).Str(keyKind, message).Uint64(keySuppressed, k.suppressed).Msg("messages suppressed")
			k.suppressed = 0
		}
	}
}

func (d *damper) close() {
	close(d.stop)
	<-d.done
}
