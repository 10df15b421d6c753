package setup

import "bytes"

// maxDepth bounds what the parser has on its stack, which calls itself for each object and list.
const maxDepth = 1000

// deep reports whether a text nests deeper than maxDepth. Brackets in strings and comments do
// not count; in a text that is not JSON they may.
func deep(text []byte) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			if depth++; depth > maxDepth {
				return true
			}
		case ']', '}':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			switch rest := text[i:]; {
			case bytes.HasPrefix(rest, []byte("//")):
				i += skip(rest, "\n")
			case bytes.HasPrefix(rest, []byte("/*")):
				i += skip(rest, "*/")
			}
		}
	}
	return false
}

// skip is how far behind its first two bytes a comment ends.
func skip(comment []byte, end string) int {
	if n := bytes.Index(comment[2:], []byte(end)); n >= 0 {
		return 1 + n + len(end)
	}
	return len(comment)
}
