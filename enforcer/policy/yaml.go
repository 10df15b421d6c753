package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxFile bounds a policy file, in bytes.
const maxFile = 1 << 20

// parseYAML returns the root mapping of the only document in data, or nil if it holds
// nothing but comments.
func parseYAML(file string, data []byte) (*yaml.Node, *Error) {
	at := func(offset int, what, hint string) (*yaml.Node, *Error) {
		before := data[:offset]
		column := 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
		return nil, &Error{file, 1 + bytes.Count(before, []byte("\n")), column, what, hint, nil}
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
			return nil, &Error{file, second.Line, second.Column, "a second document begins",
				"a policy is one document", nil}
		}
	}
	bad, ok := errors.AsType[*yaml.LoadError](err)
	if !ok || bad.Mark.Line < 1 {
		return at(0, "invalid YAML: "+err.Error(), "")
	}
	mark, hint, lines := bad.Mark, hints[bad.Message], strings.Split(string(data), "\n")
	mark.Line = min(mark.Line, len(lines)) // the end of a file without a last newline is in a line of its own
	switch {
	case strings.HasSuffix(hint, "is not closed"), bad.ContextMsg == "while scanning a simple key":
		mark = bad.ContextMark // where it begins
	case strings.HasPrefix(strings.TrimLeft(lines[mark.Line-1], " "), "\t"):
		hint = "indent with spaces"
	}
	return nil, &Error{file, mark.Line, mark.Column, "invalid YAML: " + bad.Message, hint, nil}
}

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
