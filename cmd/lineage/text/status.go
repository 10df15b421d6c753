package text

import (
	"io"

	"github.com/lineage-ebpf/lineage/api/display"
)

// Status is one line on a terminal that is overwritten. It is not safe for concurrent
// use.
type Status struct {
	Shown bool

	w     io.Writer
	width int
}

// NewStatus makes a line on a terminal of that width; 0: not a terminal, nothing is
// shown.
func NewStatus(w io.Writer, width int) *Status { return &Status{w: w, width: width} }

func (s *Status) Possible() bool { return s.width > 0 }

func (s *Status) Show(line string) {
	if s.Possible() {
		s.Shown = true
		io.WriteString(s.w, "\r"+Fit(display.Text(line), s.width-1)+"\x1b[K")
	}
}

func (s *Status) Clear() {
	if s.Shown {
		io.WriteString(s.w, "\r\x1b[K")
		s.Shown = false
	}
}
