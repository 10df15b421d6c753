//go:build linux

package orders

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// quietTime is how long one line stands for all that are like it.
const quietTime = 10 * time.Second

// quiet logs what others on the bus can cause as often as they like.
type quiet struct {
	log  zerolog.Logger
	mu   sync.Mutex
	last map[string]time.Time
	more map[string]uint64 // since the last line
}

func (q *quiet) refused(err error) { q.say(err, "command refused") }
func (q *quiet) waits(err error)   { q.say(err, "the receipt of a command waits") }

func (q *quiet) say(err error, message string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		q.last, q.more = make(map[string]time.Time), make(map[string]uint64)
	}
	if time.Since(q.last[message]) < quietTime {
		q.more[message]++
		return
	}
	q.log.Warn().Err(err).Uint64("more", q.more[message]).Msg(message)
	q.last[message], q.more[message] = time.Now(), 0
}
