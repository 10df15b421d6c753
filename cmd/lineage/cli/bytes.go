package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Bytes is a flag that takes a size: 1048576, 512MiB, 8GiB.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

func (v *Bytes) Set(s string) error {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/u.size {
			break
		}
		*v = Bytes(n * u.size)
		return nil
	}
	return errors.New("a number of bytes, or one with KiB, MiB, GiB or TiB")
}

func (v *Bytes) String() string {
	for i := len(byteUnits) - 2; i >= 0; i-- {
		if u := byteUnits[i]; *v != 0 && int64(*v)%u.size == 0 {
			return strconv.FormatInt(int64(*v)/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(*v), 10)
}

func (v *Bytes) Type() string { return "bytes" }
