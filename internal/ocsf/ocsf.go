// Package ocsf checks records against the Open Cybersecurity Schema Framework 1.8.0: the
// classes and objects that lineage uses. schema.json has attributes, types, enumerations
// and constraints, but no text of the framework.
package ocsf

import (
	"bytes"
	_ "embed"
	"errors"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Version is the version of the framework.
const Version = "1.8.0"

//go:embed schema.json
var text []byte

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
})

// Validate checks one event, as JSON. The error names every violation with its path.
func Validate(event []byte) error {
	if !utf8.Valid(event) {
		return errors.New("not UTF-8")
	}
	e, err := jsonschema.UnmarshalJSON(bytes.NewReader(event))
	if err != nil {
		return err
	}
	s, err := compiled()
	if err != nil {
		return err
	}
	return s.Validate(e)
}
