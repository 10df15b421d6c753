package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML writes a value as a YAML document, with the fields and the order that it has in
// JSON.
func (p *Page) YAML(v any) error {
	n, err := yamlNode(v)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(n), enc.Close()); err != nil {
		return fmt.Errorf("encode document: %w", err)
	}
	_, err = visible{p.w, yamlEscape}.Write(text.Bytes())
	return err
}

// yamlNode makes a document of a value's JSON, which is YAML already, but in the style
// of JSON.
func yamlNode(v any) (*yaml.Node, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(visible{&text, yamlEscape}) // its reader refuses control characters
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	var n yaml.Node
	if err := yaml.Unmarshal(text.Bytes(), &n); err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return &n, plainStyle(&n)
}

// plainStyle gives a node the style of handwritten YAML. A text stays a text for every
// reader: "no" and "1e3" keep their quotes.
func plainStyle(n *yaml.Node) error {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		text := n.Value
		if err := n.Encode(text); err != nil {
			return fmt.Errorf("encode text: %w", err)
		}
		if strings.ContainsFunc(text, hidden) {
			n.Style = yaml.DoubleQuotedStyle // the style with escapes
		}
	}
	for _, inner := range n.Content {
		if err := plainStyle(inner); err != nil {
			return err
		}
	}
	return nil
}

// yamlEscape writes a character as YAML has it in double quotes.
func yamlEscape(out []byte, r rune) []byte {
	if r > 0xffff {
		return fmt.Appendf(out, `\U%08x`, r)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
