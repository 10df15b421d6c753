package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestAgreed(t *testing.T) {
	for answer, want := range map[string]bool{
		"y\n": true, " YES \n": true, "n\n": false, "\n": false, "yesterday\n": false,
		"": false, "y": false, // the end of the input is not an answer
	} {
		var out bytes.Buffer
		c := Console{Stdin: strings.NewReader(answer), Stderr: &out}
		if got := c.Agreed("End it?"); got != want || !strings.HasPrefix(out.String(), "End it? [y/N] ") {
			t.Errorf("%q: %v, asked %q", answer, got, out.String())
		}
	}
}

// Without a terminal the console asks no question and shows no progress line.
func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	c := Console{Stdin: strings.NewReader("y\n"), Stdout: &out, Stderr: &out, Color: "auto", Now: time.Now}
	if c.canAsk() || c.Status().Possible() {
		t.Error("a buffer is taken for a terminal")
	}
	c.During(func(time.Time) string { t.Error("asked for a line"); return "" })()
	if p := c.Page(&out, false); p.Width != 0 || p.Color {
		t.Errorf("width %d, colour %v", p.Width, p.Color)
	}
}
