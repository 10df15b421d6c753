package display

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/quick"
	"unicode"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api/internal/require"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"command", "sh -c 'exit 0' --flag=\"a b\"", "sh -c 'exit 0' --flag=\"a b\""},
		{"words of the world", "größe 名前 😀 é", "größe 名前 😀 é"},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"clipboard", "\x1b]52;c;ZXZpbA==\a", `\x1b]52;c;ZXZpbA==\x07`},
		{"lines", "a\nlineage: all ended\r\n\tb", `a\nlineage: all ended\r\n\tb`},
		{"controls", "\x00\x08\x0b\x0c\x0e\x7f", `\x00\x08\x0b\x0c\x0e\x7f`},
		{"eight-bit CSI as a rune", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"eight-bit CSI as a byte", "\x9b31m", `\x9b31m`},
		{"bidi override", "exe.\u202etxt\u202c", `exe.\u202etxt\u202c`},
		{"bidi isolates and marks", "\u2066\u2067\u2068\u2069\u200e\u200f\u061c", `\u2066\u2067\u2068\u2069\u200e\u200f\u061c`},
		{"invisible", "a\u200bb\u00adc\ufeffd\u2060", `a\u200bb\u00adc\ufeffd\u2060`},
		{"line separators", "a\u2028b\u2029c", `a\u2028b\u2029c`},
		{"other spaces", "a\u00a0b\u3000c", `a\u00a0b\u3000c`},
		{"tags and private use", "\U000e0041\ue000\U0010fffd", `\U000e0041\ue000\U0010fffd`},
		{"invalid", "ok\xff\xc3(\xe2\x82", `ok\xff\xc3(\xe2\x82`},
		{"surrogate", "\xed\xa0\x80", `\xed\xa0\x80`},
		{"overlong", "\xc0\x9b", `\xc0\x9b`},
		{"replacement character itself", "\ufffd", "\ufffd"},
		{"backslash", `printf '\033[1m'`, `printf '\033[1m'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Text(c.in); got != c.want {
				t.Errorf("Text(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// TestTextOfAnyBytes: whatever comes is shown as printable UTF-8, and what is shown stays as it is.
func TestTextOfAnyBytes(t *testing.T) {
	printable := func(in string) bool {
		got := Text(in)
		odd := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) })
		return utf8.ValidString(got) && odd < 0 && Text(got) == got
	}
	ofBytes := func(in []byte) bool { return printable(string(in)) }
	require.NoError(t, quick.Check(printable, nil), quick.Check(ofBytes, nil))
}

// No user has to know what a context is.
func TestError(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("end x\n: %w", context.DeadlineExceeded):                                `end x\n: timed out`,
		&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}:                  "read tcp: timed out",
		errors.New(`Get "http://lineage/v1/version": ` + context.DeadlineExceeded.Error()): `Get "http://lineage/v1/version": timed out`,
		errors.New("disk full"): "disk full",
	} {
		if got := Error(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
