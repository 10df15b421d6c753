//go:build linux

package system

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// How much of one kind of message is logged: the first ones, then some a second.
// The number of suppressed ones is logged with the next one, or after
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

	mu     sync.Mutex
	kinds  map[string]*kind
	all    *rate.Limiter
	report *time.Timer // of what was suppressed; nil: nothing was since the last one
}

type kind struct {
	limit      *rate.Limiter
	suppressed uint64
	level      zerolog.Level
}

func newLimiter(log zerolog.Logger) *limiter {
	return &limiter{log: log, kinds: make(map[string]*kind), all: rate.NewLimiter(allRate, allBurst)}
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
		if l.report == nil {
			l.report = time.AfterFunc(reportPeriod, l.flush)
		}
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

// flush logs what was suppressed and no later message has reported.
func (l *limiter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.report != nil {
		l.report.Stop()
		l.report = nil
	}
	for message, k := range l.kinds {
		if k.suppressed > 0 {
			l.log.WithLevel(k.level).Str(KeyKind, message).
				Uint64(KeySuppressed, k.suppressed).Msg("messages suppressed")
			k.suppressed = 0
		}
	}
}
