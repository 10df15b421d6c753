//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Seconds is a duration as timeout(1) takes it: a number, and s, m, h or d.
type Seconds time.Duration

func (s *Seconds) String() string { return "0" }
func (s *Seconds) Type() string   { return "time" }

func (s *Seconds) Set(text string) error {
	text = strings.TrimLeft(text, " \t\n\v\f\r") // as strtod(3) does
	number, unit, end := text, 1.0, ""
	if hex := strings.ToLower(strings.TrimLeft(text, "+-")); strings.HasPrefix(hex, "0x") &&
		!strings.Contains(hex, "p") {
		end = "p0" // Go wants an exponent
	}
	for suffix, of := range map[string]float64{"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60} {
		if before, ok := strings.CutSuffix(text, suffix); ok &&
			(suffix != "d" || end == "") { // in 0x1d it is a digit
			number, unit = before, of
		}
	}
	n, err := strconv.ParseFloat(number+end, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(n) || n < 0 || strings.Contains(text, "_") {
		return errors.New("a number of seconds, or one with s, m, h or d")
	}
	*s = Seconds(math.MaxInt64)
	if ns := math.Ceil(n * unit * float64(time.Second)); ns < math.MaxInt64 {
		*s = Seconds(ns)
	}
	return nil
}

// Signal is a signal by its number, or by its name with or without SIG.
type Signal unix.Signal

// signals are those that package unix has no name for, or another one, as the C library counts them.
var signals = map[string]int{"EXIT": 0, "IOT": 6, "CLD": 17, "POLL": 29, "RTMIN": 34, "RTMAX": 64}

// String is the name that timeout(1) prints.
func (s *Signal) String() string {
	name := strings.TrimPrefix(unix.SignalName(unix.Signal(*s)), "SIG")
	switch n := int(*s); {
	case n == 0:
		name = "EXIT"
	case n == 29:
		name = "POLL"
	case n > 49:
		name = strings.TrimSuffix(fmt.Sprintf("RTMAX-%d", 64-n), "-0")
	case n > 31:
		name = strings.TrimSuffix(fmt.Sprintf("RTMIN+%d", n-34), "+0")
	}
	return name
}
func (s *Signal) Type() string { return "signal" }

func (s *Signal) Set(text string) error {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	n, known := signals[name]
	var err error
	switch i, number := strings.IndexAny(name, "+-0123456789"), int(unix.SignalNum("SIG"+name)); {
	case number != 0:
		n = number
	case i == 5: // RTMIN+1
		n, err = strconv.Atoi(name[i:])
		if n += signals[name[:i]]; n < 34 {
			n = -1
		}
	case !known:
		var u uint64
		u, err = strconv.ParseUint(name, 10, 8)
		if n = int(u); name == text && n > 128 { // the exit status of what died of it
			n -= 128
		}
	}
	if err != nil || n < 0 || n > 64 || n == 32 || n == 33 {
		return errors.New("a signal such as TERM or 9")
	}
	*s = Signal(n)
	return nil
}
