package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The limits of a page of the history.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// HistoryQuery selects what History gives. Zero times are no limit.
type HistoryQuery struct {
	Since, Until time.Time // when it ended
	Limit        int       // at most MaxPage; 0: DefaultPage
	Next         string    // of the page before
	After        string    // a place, which is the Next of an answer, or now: the receipt after it instead of sessions
}

// History lists ended sessions. CodeBadRequest: the query makes no sense.
func (c *client) History(ctx context.Context, q HistoryQuery) (*Sessions, error) {
	v := values("next", q.Next, "limit", number(uint64(q.Limit)), "since", stamp(q.Since),
		"until", stamp(q.Until), "after", q.After)
	return fetch[Sessions](c, ctx, http.MethodGet, "/v1/history", v, nil)
}

// The times that int64 nanoseconds can hold, a little less.
var earliest, latest = time.Unix(0, 0), time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)

// ParseTime reads a point in time: in RFC 3339, as a duration before now, as 10m or 7d, or as the
// beginning of today or yesterday where now is. The error is what text must be.
func ParseTime(text string, now time.Time) (time.Time, error) {
	switch y, m, d := now.Date(); text {
	case "today":
		return time.Date(y, m, d, 0, 0, 0, 0, now.Location()), nil
	case "yesterday":
		return time.Date(y, m, d-1, 0, 0, 0, 0, now.Location()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		days, isDays := strings.CutSuffix(text, "d")
		n, err := strconv.ParseUint(days, 10, 16)
		d := time.Duration(n) * 24 * time.Hour
		if !isDays {
			d, err = time.ParseDuration(text)
		}
		if err != nil || d < 0 {
			return t, fmt.Errorf("a duration such as 10m or 7d, today, yesterday, or a time such as %s (RFC 3339)",
				now.UTC().Format(time.RFC3339))
		}
		t = now.Add(-d)
	}
	if t.Before(earliest) || t.After(latest) {
		return t, fmt.Errorf("a time in the years %d to %d", earliest.UTC().Year(), latest.Year())
	}
	return t, nil
}

// ParseRange reads where a range of times begins and ends; what is not given is zero. The error names
// both with dashes in front.
func ParseRange(dashes, since, until string, now time.Time) (from, to time.Time, err error) {
	for _, x := range []struct {
		name, text string
		t          *time.Time
	}{{"since", since, &from}, {"until", until, &to}} {
		if x.text == "" {
			continue
		}
		if *x.t, err = ParseTime(x.text, now); err != nil {
			return from, to, fmt.Errorf("invalid %s%s %q: must be %w", dashes, x.name, x.text, err)
		}
	}
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		return from, to, fmt.Errorf("%ssince %s is after %suntil %s", dashes, since, dashes, until)
	}
	return from, to, nil
}
