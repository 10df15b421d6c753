package tui

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// link is what is known about the daemon and its stream.
type link struct {
	client Client // nil: not found yet
	status api.WatchStatus
	known  bool      // a picture has arrived
	fresh  time.Time // when the last one came
	away   error     // the stream is broken
	since  time.Time // … since then

	boot time.Time // when the clock of the pictures was 0
}

// take stores what the feed delivered, except the picture itself.
func (k *link) take(msg picture.FeedMsg, now time.Time) {
	if b := msg.Batch; b != nil {
		k.known, k.fresh = true, now
		if b.Status != nil {
			k.status = *b.Status
		}
		if b.TimeNS != 0 {
			k.boot = now.Add(-time.Duration(b.TimeNS))
		}
	}
	if msg.Away != nil && k.away == nil {
		k.since = now
	}
	k.away = msg.Away
}

// stale is the age of the picture while nothing new arrives, else 0.
func (k *link) stale(now time.Time) time.Duration {
	if k.away == nil || !k.known {
		return 0
	}
	return max(now.Sub(k.fresh), time.Second)
}
