package api

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
