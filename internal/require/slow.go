package require

import (
	"os"
	"strconv"
	"time"
)

// Slowed is how long a test waits for what takes less than d on a usual machine.
// LNGTEST_SLOW says how many times slower this machine is, for example an emulated one.
func Slowed(d time.Duration) time.Duration {
	if n, err := strconv.Atoi(os.Getenv("LNGTEST_SLOW")); err == nil && n > 1 {
		return d * time.Duration(n)
	}
	return d
}
