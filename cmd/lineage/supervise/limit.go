//go:build linux

package supervise

import (
	"cmp"
	"errors"
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
	number, unit := text, 1.0
	for suffix, of := range map[string]float64{"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60} {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = before, of
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(n) || n < 0 {
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

func (s *Signal) String() string {
	return strings.TrimPrefix(unix.SignalName(unix.Signal(*s)), "SIG")
}
func (s *Signal) Type() string { return "signal" }

func (s *Signal) Set(text string) error {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	n, err := int(unix.SignalNum("SIG"+name)), error(nil)
	if n == 0 && name != "EXIT" {
		from := 0
		for word, first := range map[string]int{"RTMIN": 34, "RTMAX": 64} { // as the C library counts them
			if offset, ok := strings.CutPrefix(name, word); ok {
				from, name = first, cmp.Or(offset, "0")
			}
		}
		n, err = strconv.Atoi(name)
		n += from
	}
	if err != nil || n < 0 || n > 64 || n == 32 || n == 33 {
		return errors.New("a signal such as TERM or 9")
	}
	*s = Signal(n)
	return nil
}
