package api

import (
	"regexp"
	"strings"
)

// maxName is the length of the longest session name, in bytes.
const maxName = 64

var (
	sessionWord = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]*\z`)
	refused     = regexp.MustCompile(`[^A-Za-z0-9._]+`)
)

// ASessionWord is what can be the id or the name of a session, for messages.
const ASessionWord = "a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -"

// IsSessionWord reports whether s is [ASessionWord].
func IsSessionWord(s string) bool { return len(s) <= maxName && sessionWord.MatchString(s) }

// SessionWord makes a session name from a program's name: what IsSessionWord refuses is
// left out or becomes a "-". "" if nothing is left.
func SessionWord(s string) string {
	word := strings.TrimLeft(refused.ReplaceAllLiteralString(s, "-"), "-._")
	return strings.TrimRight(word[:min(len(word), maxName)], "-")
}
