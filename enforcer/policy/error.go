package policy

import (
	"fmt"
	"strings"
)

// Error says why a policy is refused, and where. Line and Column count from 1;
// columns are characters.
type Error struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	What   string `json:"what"`
	Hint   string `json:"hint,omitempty"` // what to write instead

	More []*Error `json:"more,omitempty"` // further mistakes, in the order of the file; 19 at most
}

// All are this mistake and the further ones.
func (e *Error) All() []*Error { return append([]*Error{e}, e.More...) }

// Error is one line, of the first mistake: FILE:LINE:COLUMN: what; hint.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// wrong says why a value does not accept a text.
type wrong struct{ what, hint string }

// oneOf lists words as people do: a, b or c.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// suggest gives the hint for a misspelt word.
func suggest(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "use " + oneOf(known)
}

// Nearest returns the known word that a misspelt one most likely means, "" if none is
// similar.
func Nearest(word string, known []string) string {
	best, least := "", 1+len(word)/2
	for _, k := range known {
		d := distance(word, k)
		if word != "" && strings.HasPrefix(k, word) {
			d = 1
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance. A word that is much longer than any key is not
// compared.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
