// Package text writes documents of package api for people, and in the other formats
// of -o: as JSON, as JSON lines, and as names.
package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

var Formats = []string{"table", "wide", "json", "jsonl", "name"}

// Documents are the formats of an answer without columns and names.
var Documents = []string{"table", "json", "jsonl"}

// Listing is one answer in all formats.
type Listing struct {
	Doc   any               // json: the document
	Items []any             // jsonl: its items, each with its kind
	Names []string          // name
	Text  func(*Page)       // table, wide
	Empty string            // the message if nothing is listed
	Also  string            // the message before a table
	table func(*Page) table // what Text writes, if that is one table
}

func (l *Listing) add(item any, name string) {
	l.Items, l.Names = append(l.Items, item), append(l.Names, name)
}

type documents[T any] struct {
	api.Head
	Items []T `json:"items"`
}

// documentOf is the document of several answers, or the only answer itself.
func documentOf[T any](several bool, kind string, all []T) any {
	if several {
		return documents[T]{api.NewHead(kind), all}
	}
	return all[0]
}

func (l *Listing) Write(p *Page, format string) error {
	switch format {
	case "json":
		enc := p.JSON()
		enc.SetIndent("", "  ")
		if err := enc.Encode(l.Doc); err != nil {
			return fmt.Errorf("encode document: %w", err)
		}
	case "jsonl":
		enc := p.JSON()
		for _, item := range l.Items {
			if err := enc.Encode(item); err != nil {
				return fmt.Errorf("encode item: %w", err)
			}
		}
	case "name":
		for _, n := range l.Names {
			p.Line("%s", display.Text(n))
		}
	default:
		l.Text(p)
	}
	return p.Flush()
}

// JSON is an encoder of values that are safe on a terminal.
func (p *Page) JSON() *json.Encoder {
	enc := json.NewEncoder(visible{p.w})
	enc.SetEscapeHTML(false)
	return enc
}

// visible escapes what an encoder leaves unchanged and a terminal would interpret: DEL,
// C1 controls, bidirectional overrides. They occur only in strings. Each Write is a
// whole value, as encoders write.
type visible struct{ w io.Writer }

func hidden(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }

func (v visible) Write(b []byte) (int, error) {
	if bytes.IndexFunc(b, hidden) < 0 {
		return v.w.Write(b)
	}
	out := make([]byte, 0, len(b)+64)
	for _, r := range string(b) {
		if !hidden(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
