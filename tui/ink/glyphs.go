package ink

import "strings"

// Glyphs are the shapes; each glyph of a state is followed by a letter.
type Glyphs struct {
	LiveGlyph, ExitedGlyph, EndedGlyph, MovedGlyph string
	Died                                           string // before how long ago
	Cursor, Open, Shut                             string
	Tee, Elbow, Bar                                string
	Times, Dots, Up, Down, Sep, Side               string
	Lane, LaneNow, LaneDot                         string
	Horizontal, Corners                            string
	OpenClaim, CloseClaim                          string // around what a member says
	Falling                                        string
	Spark                                          []string
}

var glyphs = Glyphs{
	LiveGlyph: "●", ExitedGlyph: "○", EndedGlyph: "⚑", MovedGlyph: "↷", Died: "†",
	Cursor: "›", Open: "▾ ", Shut: "▸ ",
	Tee: "├─", Elbow: "└─", Bar: "│ ",
	Times: "×", Dots: "…", Up: "↑", Down: "↓", Sep: "·", Side: "│",
	Lane: "━", LaneNow: "▶", LaneDot: "•", Horizontal: "─", Corners: "┌┐└┘",
	Falling: "▼", OpenClaim: "⟨", CloseClaim: "⟩",
	Spark: strings.Split("▁▂▃▄▅▆▇█", ""),
}

// Sparkline draws the last values, at most as many as columns, scaled from 0 to the
// largest, or to 10 if that is greater; 0 is blank. Without values it is "".
func (g *Glyphs) Sparkline(values []float64, columns int) string {
	values = values[max(0, len(values)-max(columns, 0)):]
	most := 10.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteString(g.Spark[int(v/most*float64(len(g.Spark)-1)+0.5)])
	}
	return b.String()
}
