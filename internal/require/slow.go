package require

import (
	"os"
	"strconv"
	"time"
)

// Slowed is d, as often as LNGTEST_SLOW says that this machine is slower, for example an emulated one.
func Slowed(d time.Duration) time.Duration {
	if n, err := strconv.Atoi(os.Getenv("LNGTEST_SLOW")); err == nil && n > 1 {
		return d * time.Duration(n)
	}
	return d
}
