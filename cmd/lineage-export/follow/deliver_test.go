package follow

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// busy is a sink that asks to wait once.
type busy struct {
	list
	later error
}

func (b *busy) Deliver(context.Context, []*Record) error {
	err := b.later
	b.later = nil
	return err
}

// TestLater: a receiver that says how long to wait is not asked before.
func TestLater(t *testing.T) {
	down := errors.New("down")
	for _, c := range []struct {
		says        string
		least, most time.Duration
	}{
		{"", firstPause / 2, 2 * firstPause},
		{"20", 20 * time.Second, 21 * time.Second},
		{"600", 10 * time.Minute, 11 * time.Minute},
		{"99999999999999999999", firstPause / 2, 2 * firstPause},
		{"9999999999", longestLater, longestLater + time.Minute},
		{"-7", firstPause / 2, 2 * firstPause},
		{"date", 58 * time.Second, 61 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			says := c.says
			if says == "date" {
				says = time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
			}
			f := &Follower{Sink: &busy{later: Retry(down, http.Header{"Retry-After": {says}})}, Store: &Store{}, Log: zerolog.Nop(), batch: []*Record{{}}}
			began := time.Now()
			if err := f.deliver(t.Context(), func() {}); !errors.Is(err, errAgain) {
				t.Fatal(err)
			}
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("%q: tried again after %v", c.says, took)
			}
		})
	}
}
