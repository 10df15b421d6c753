//go:build linux

package logging

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// How much of one kind of message is logged: the first ones, then some a second.
// The number of suppressed ones is logged with the next one, or within
// reportPeriod.
const (
	kindBurst    = 50
	kindRate     = 5
	reportPeriod = 10 * time.Second
	maxKinds     = 256 // beyond it kinds share one limit: messages are constants
	// Of all kinds together, except errors: a caller that can cause several kinds must
	// not fill the disk with them either.
	allBurst = 500
	allRate  = 10
)

// limiter keeps messages that can be caused from outside, such as refusals, from
// filling the log. It is a hook of zerolog's, safe for concurrent use.
type limiter struct {
	log zerolog.Logger // without the limiter

	mu    sync.Mutex
	kinds map[string]*kind
	all   *rate.Limiter

	stop chan struct{}
	done chan struct{}
}

// kind is one kind of message.
type kind struct {
	limit      *rate.Limiter
	suppressed uint64
	level      zerolog.Level
}

func newLimiter(log zerolog.Logger) *limiter {
	l := &limiter{log: log, kinds: make(map[string]*kind), all: rate.NewLimiter(allRate, allBurst), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Run lets an event through, with the number of suppressed ones before it, or
// suppresses it.
func (l *limiter) Run(e *zerolog.Event, level zerolog.Level, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kind(message)
	if !k.limit.Allow() || level < zerolog.ErrorLevel && !l.all.Allow() {
		k.suppressed++
		k.level = level
		e.Discard()
		return
	}
	if k.suppressed > 0 {
		e.Uint64(KeySuppressed, k.suppressed)
		k.suppressed = 0
	}
}

func (l *limiter) kind(message string) *kind {
	if len(l.kinds) >= maxKinds && l.kinds[message] == nil {
		message = ""
	}
	k := l.kinds[message]
	if k == nil {
		k = &kind{limit: rate.NewLimiter(kindRate, kindBurst)}
		l.kinds[message] = k
	}
	return k
}

func (l *limiter) run() {
	defer close(l.done)
	tick := time.NewTicker(reportPeriod)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			l.report()
			return
		case <-tick.C:
			l.report()
		}
	}
}

// report logs what was suppressed and no later message has reported.
func (l *limiter) report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for message, k := range l.kinds {
		if k.suppressed > 0 {
			l.log.WithLevel(k.level).Str(KeyKind, message).Uint64(KeySuppressed, k.suppressed).Msg("messages suppressed")
			k.suppressed = 0
		}
	}
}

func (l *limiter) close() {
	close(l.stop)
	<-l.done
}
