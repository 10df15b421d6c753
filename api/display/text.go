package display

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text gives text as one line of visible text for terminals and logs. What is not
// printable becomes an escape as Go writes it: \n and \t, \x1b for controls and for
// bytes that are not UTF-8, \u202e for bidirectional overrides, line separators, spaces
// other than ' ', and everything else that is invisible. A backslash stays as it is,
// because it is common in commands and harmless: the result is for reading, not for
// decoding. Text(Text(s)) is Text(s).
func Text[S ~string](text S) string {
	s := string(text)
	clean := cleanPrefix(s)
	if clean == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:clean])
	for i := clean; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf && r != '\n' && r != '\t' && r != '\r': // Go has letters for some more
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return b.String()
}

// Error is the text of an error, with Go's words for a timeout in plainer ones.
func Error(err error) string { return Text(timeouts.Replace(err.Error())) }

var timeouts = strings.NewReplacer(context.DeadlineExceeded.Error(), "timed out",
	os.ErrDeadlineExceeded.Error(), "timed out")

// cleanPrefix is the length of the part of s that is printable ASCII, which is
// nearly always all of it.
func cleanPrefix(s string) int {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return i
		}
	}
	return len(s)
}
