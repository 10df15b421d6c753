package console

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Screen is where something that changes is drawn: on a terminal over the previous
// drawing, elsewhere below it.
type Screen struct {
	console *Console
	wide    bool
	last    string
}

// Screen makes a Screen on stdout.
func (c *Console) Screen(wide bool) *Screen { return &Screen{console: c, wide: wide} }

// Draw draws the output of write.
func (s *Screen) Draw(write func(*text.Page)) error {
	var drawn strings.Builder
	p := s.console.Page(s.console.Stdout, s.wide).On(&drawn)
	write(p)
	p.Flush()
	out := drawn.String()
	if size, ok := Terminal(s.console.Stdout); ok {
		out = overdraw(out, int(size.Row), s.last == "")
	} else if out == s.last {
		return nil
	} else if s.last != "" {
		out = "\n" + out
	}
	s.last = drawn.String()
	if _, err := fmt.Fprint(s.console.Stdout, out); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// overdraw writes text over a terminal with that many rows, without the flicker of
// clearing it first.
func overdraw(text string, rows int, first bool) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := max(rows-1, 2); rows > 0 && len(lines) > room {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("… %d more", hidden))
	}
	out := "\x1b[?7l\x1b[H" // no wrapping: one row is one line
	if first {
		out += "\x1b[2J"
	}
	for _, l := range lines {
		out += l + "\x1b[K\n"
	}
	return out + "\x1b[J\x1b[?7h"
}
