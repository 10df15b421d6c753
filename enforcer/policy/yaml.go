package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a policy file, in bytes.
const maxFile = 1 << 20

// parseYAML returns the root mapping of the only document in data, or nil if it holds
// nothing but comments.
func parseYAML(file string, data []byte) (*yaml.Node, *Error) {
	at := func(offset int, what, hint string) (*yaml.Node, *Error) {
		line, column := position(data, offset)
		return nil, &Error{file, line, column, what, hint, nil}
	}
	if len(data) > maxFile {
		return at(0, "the policy is larger than 1MiB", "")
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return at(i, fmt.Sprintf("the byte %#02x is not valid UTF-8", data[i]), "")
		case r == '\r' && bytes.HasPrefix(data[i:], []byte("\r\n")):
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029:
			// YAML treats some of them as line breaks, and editors do not.
			return at(i, fmt.Sprintf("the control character %#02x is not allowed here", r), "")
		}
		i += n
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := d.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err == nil && isNull(doc.Content[0]):
		return nil, nil
	case err == nil:
		if err = d.Decode(&second); errors.Is(err, io.EOF) {
			return doc.Content[0], nil
		}
		if err == nil {
			return nil, &Error{file, second.Line, second.Column, "a second document begins", "a policy is one document", nil}
		}
	}
	what, offset := syntax(err), problem(data)
	hint := hints[what]
	if offset < len(data) && data[offset] == '\t' {
		hint = "indent with spaces"
	}
	return at(offset, "invalid YAML: "+what, hint)
}

// padding is appended to the file, so that the parser can always read ahead of a
// problem.
var padding = bytes.Repeat([]byte("\n"), 8)

// lookahead is how many bytes the parser has read ahead when it looks at a token.
const lookahead = 4

// counted gives a parser one byte at a time. The parser reports the line of a syntax
// error only sometimes, often that of the surrounding block, and never the column. The
// position where it stopped reading is closer.
type counted struct {
	data []byte
	n    int
}

func (c *counted) Read(b []byte) (int, error) {
	if c.n == len(c.data) {
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	b[0] = c.data[c.n]
	c.n++
	return 1, nil
}

// problem is the offset of the word that the parser stops at.
func problem(data []byte) int {
	size := len(data)
	c := &counted{data: append(data[:size:size], padding...)}
	for d := yaml.NewDecoder(c); d.Decode(new(yaml.Node)) == nil; {
	}
	i := min(max(c.n-lookahead, 0), size)
	blank := func(i int) bool { return strings.IndexByte(" \t\r\n", c.data[i]) >= 0 }
	if i < size && c.data[i] == '\t' {
		return i // the problem itself: words do not begin with a blank
	}
	for i > 0 && (i == size || blank(i)) {
		i--
	}
	for i > 0 && !blank(i-1) {
		i--
	}
	return i
}

// position returns line and column of an offset, both from 1.
func position(data []byte, offset int) (line, column int) {
	before := data[:min(offset, len(data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

var prefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// syntax is the parser's message, without its line number.
func syntax(err error) string { return prefix.ReplaceAllString(err.Error(), "") }

// hints for frequent mistakes.
var hints = map[string]string{
	"found a tab character that violates indentation":       "indent with spaces",
	"found character that cannot start any token":           "quote the value",
	"mapping values are not allowed in this context":        "quote the value, or check the indentation",
	"did not find expected key":                             "check the indentation",
	"did not find expected '-' indicator":                   "check the indentation",
	"found unknown escape character":                        "write expressions in single quotes",
	"found unexpected end of stream":                        "a quote is not closed",
	"did not find expected ',' or ']'":                      "a [ is not closed",
	"did not find expected ',' or '}'":                      "a { is not closed",
	"did not find expected alphabetic or numeric character": "quote the value",
}
