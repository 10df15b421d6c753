package console

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

func TestComplain(t *testing.T) {
	ambiguous := api.NewError(api.CodeAmbiguous, "session build: several have that name", "")
	ambiguous.Items = []api.Session{{ID: "k3x9q2", State: "active", UID: 1000}, {ID: "m8p4z1", State: "ending"}}
	for want, err := range map[string]error{
		"lineage: disk full\n":         errors.New("disk full"),
		"lineage: two\\nlines\\x1b!\n": errors.New("two\nlines\x1b!"),
		"lineage: session build: several have that name: k3x9q2 (active, uid 1000), m8p4z1 (ending, uid 0)\n": ambiguous,
	} {
		var out bytes.Buffer
		c := Console{Stderr: &out}
		if c.Complain(err); out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

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
	if c.CanAsk() || c.Status().Possible() {
		t.Error("a buffer is taken for a terminal")
	}
	c.During(func(time.Time) string { t.Error("asked for a line"); return "" })()
	if p := c.Page(&out, false); p.Width != 0 || p.Color {
		t.Errorf("width %d, colour %v", p.Width, p.Color)
	}
}
