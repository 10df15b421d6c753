package api

import (
	"net/url"
	"strconv"
	"time"
)

// values makes a query of the pairs whose value is not empty.
func values(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// number and stamp are texts of a query, "" for what is not given.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// waiting is the query for a reply that comes when an end is over.
func waiting(wait time.Duration) url.Values {
	if wait <= 0 {
		return nil
	}
	return values("wait", min(wait, MaxWait).String())
}
