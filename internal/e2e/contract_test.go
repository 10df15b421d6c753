//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A contract compares answers with docs/openapi.json, and notes which fields were sent.
type contract struct {
	t      *testing.T
	doc    *openapi3.T
	router routers.Router
	client *http.Client
	seen   map[string]bool // "Schema.field"
}

func newContract(i *stage.Instance) *contract {
	i.T.Helper()
	doc, err := stage.Documented()
	require.NoError(i.T, err)
	router, err := legacy.NewRouter(doc)
	require.NoError(i.T, err)
	return &contract{
		t: i.T, doc: doc, router: router, seen: make(map[string]bool),
		client: i.Client(),
	}
}

// ask makes a request that must succeed, and compares the answer.
func (c *contract) ask(method, path string, body any) {
	c.t.Helper()
	if status, text := c.answer(method, path, body); status >= http.StatusBadRequest {
		c.t.Errorf("%s %s: %d %s", method, path, status, text)
	}
}

// refused makes a request that must fail.
func (c *contract) refused(method, path string, body any) {
	c.t.Helper()
	if status, text := c.answer(method, path, body); status < http.StatusBadRequest {
		c.t.Errorf("%s %s: %d %s", method, path, status, text)
	}
}

func (c *contract) answer(method, path string, body any) (int, []byte) {
	c.t.Helper()
	request, answer, text := c.send(method, path, body)
	route, parameters, err := c.router.FindRoute(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	in := &openapi3filter.RequestValidationInput{Request: request, PathParams: parameters, Route: route}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: answer.StatusCode, Header: answer.Header, Body: io.NopCloser(bytes.NewReader(text)),
	}
	if err := openapi3filter.ValidateResponse(c.t.Context(), out); err != nil {
		c.t.Errorf("%s %s: %v\n%s", method, path, err, text)
	}
	declared := route.Operation.Responses.Status(answer.StatusCode)
	if declared == nil {
		declared = route.Operation.Responses.Default()
	}
	c.note(method+" "+path, declared.Value.Content["application/json"].Schema, text)
	return answer.StatusCode, text
}

// A stream is an open event stream. It is read at once, whenever the test looks at it: the
// daemon disconnects clients that do not read.
type stream struct {
	*contract
	path   string
	schema *openapi3.SchemaRef
	lines  chan []byte
	err    error // why the lines ended
}

func (c *contract) open(path string) *stream {
	c.t.Helper()
	request, answer, _ := c.send(http.MethodGet, path, nil)
	route, _, err := c.router.FindRoute(request)
	if err != nil {
		c.t.Fatalf("%s: %v", path, err)
	}
	c.t.Cleanup(func() { answer.Body.Close() })
	schema := route.Operation.Responses.Status(answer.StatusCode).Value.Content["application/jsonl"].Schema
	s := &stream{contract: c, path: path, schema: schema, lines: make(chan []byte, 1<<16)}
	go func() {
		defer close(s.lines)
		for in := bufio.NewReader(answer.Body); ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				s.err = err
				return
			}
			s.lines <- line
		}
	}()
	return s
}

// read reads lines up to the end of the stream.
func (s *stream) read() { s.t.Helper(); s.until() }

// until reads lines up to the end of the stream, or until the fields were sent.
func (s *stream) until(fields ...string) {
	s.t.Helper()
	for len(fields) == 0 || slices.ContainsFunc(fields, func(f string) bool { return !s.seen[f] }) {
		line, open := <-s.lines
		if !open && errors.Is(s.err, io.EOF) {
			return
		}
		if !open {
			s.t.Fatalf("%s: %v", s.path, s.err)
		}
		if s.note(s.path, s.schema, line)["kind"] == "end" {
			return
		}
	}
}

func (c *contract) send(method, path string, body any) (*http.Request, *http.Response, []byte) {
	c.t.Helper()
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(c.t, err)
		send = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://lineage"+path, send)
	require.NoError(c.t, err)
	answer, err := c.client.Do(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/jsonl") {
		return request, answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return request, answer, text
}

// note compares a document with its schema, field by field.
func (c *contract) note(what string, schema *openapi3.SchemaRef, text []byte) map[string]any {
	c.t.Helper()
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		c.t.Fatalf("%s: %v: %s", what, err, text)
	}
	if err := schema.Value.VisitJSON(document); err != nil {
		c.t.Errorf("%s: %v\n%s", what, err, text)
	}
	for _, err := range stage.Fields(schema, document, func(field string) { c.seen[field] = true }) {
		c.t.Errorf("%s: %v", what, err)
	}
	return document
}

// embeds are the schemas that have all fields of another one.
var embeds = map[string]string{"Node": "Process", "Orphan": "Process", "PlanProcess": "Process", "SelfChecked": "SelfCheck"}

// unsent are the documented fields of answers that were not sent. An embedded field
// counts as sent where its own type is sent.
func (c *contract) unsent(requests ...string) (all []string) {
	for name, schema := range c.doc.Components.Schemas {
		if slices.Contains(requests, name) {
			continue
		}
		for field := range schema.Value.Properties {
			if key := name + "." + field; !c.seen[key] {
				of := embeds[name]
				if base := c.doc.Components.Schemas[of]; base == nil || base.Value.Properties[field] == nil {
					all = append(all, key)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
