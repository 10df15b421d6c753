package api

import "strings"

// maxName is the length of the longest session name, in bytes.
const maxName = 64

// IsSessionWord reports whether s can be the id or the name of a session: a
// letter or digit, then up to 63 of A-Z a-z 0-9 . _ -
func IsSessionWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxName
}

// SessionWord makes a session name from a program's name: what IsSessionWord refuses is
// left out or becomes a "-". "" if nothing is left.
func SessionWord(s string) string {
	word := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case len(word) == maxName:
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
			word = append(word, c)
		case len(word) == 0:
		case c == '.', c == '_':
			word = append(word, c)
		case word[len(word)-1] != '-':
			word = append(word, '-')
		}
	}
	return strings.TrimRight(string(word), "-")
}
