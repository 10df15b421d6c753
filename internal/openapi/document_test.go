package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/page"
)

// object is a JSON object. Its keys are written in order.
type object = map[string]any

// document is the whole document. The comments are read from the source of package
// api, in dir.
func document(dir string) ([]byte, error) {
	comments, err := page.Comments(dir)
	if err != nil {
		return nil, err
	}
	s := &schemas{comments: comments, all: make(object)}
	paths := make(object)
	for _, r := range routes {
		method, path, _ := strings.Cut(r.pattern, " ")
		if paths[path] == nil {
			paths[path] = make(object)
		}
		paths[path].(object)[strings.ToLower(method)] = s.operation(r)
	}
	for _, v := range []any{
		api.ErrorDocument{}, api.Doctor{}, api.Command{}, api.CommandReceipt{}, api.Past{}, api.DaemonStatus{},
	} {
		s.of(reflect.TypeOf(v))
	}
	if len(s.silent) > 0 {
		return nil, fmt.Errorf("no comment says what these are: %s", strings.Join(s.silent, ", "))
	}
	text, err := json.MarshalIndent(object{
		"openapi": "3.0.3",
		"info": object{
			"title":       "lineage",
			"version":     strconv.Itoa(api.Major),
			"description": introduction,
			"license":     object{"name": "Apache-2.0"},
		},
		"servers": []any{object{"url": "http://lineage", "description": "over the unix socket " + api.DefaultSocket}},
		"paths":   paths,
		"components": object{
			"schemas": s.all,
			"responses": object{"Error": object{
				"description": "refused or failed; the status belongs to the error's code",
				"content":     content("application/json", reference("ErrorDocument")),
			}},
		},
	}, "", " ")
	return append(text, '\n'), err
}

const introduction = `The API of the lineage daemon, HTTP/1.1 over a unix socket. See docs/API.md for streams, errors, and what a session's name means in a path. ` +
	`Within version 1 fields and values are only added: ignore what you do not know. A field that is absent is unknown, or zero where zero says nothing.`

func (s *schemas) operation(r route) object {
	_, path, _ := strings.Cut(r.pattern, " ")
	var parameters []any
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			parameters = append(parameters, object{"name": name, "in": "path", "required": true, "description": pathParameters[name], "schema": object{"type": "string"}})
		}
	}
	for _, p := range r.query {
		schema := object{"type": "string"}
		if len(p.values) > 0 {
			schema["enum"] = p.values
		}
		parameters = append(parameters, object{"name": p.name, "in": "query", "description": p.does, "schema": schema})
	}
	op := object{"summary": r.does, "operationId": r.id, "responses": s.responses(r)}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if r.body != nil {
		op["requestBody"] = object{"content": content("application/json", s.of(reflect.TypeOf(r.body)))}
	}
	return op
}

func (s *schemas) responses(r route) object {
	all := object{"default": object{"$ref": "#/components/responses/Error"}}
	if r.answers == nil {
		all["200"] = object{"description": "Prometheus text", "content": content("text/plain", object{"type": "string"})}
		return all
	}
	kind := "application/json"
	if r.stream {
		kind = "application/jsonl"
	}
	for _, status := range slices.Sorted(maps.Keys(r.answers)) {
		var of []any
		for _, v := range r.answers[status] {
			of = append(of, s.of(reflect.TypeOf(v)))
		}
		schema := of[0]
		if len(of) > 1 {
			schema = object{"anyOf": of}
		}
		text := http.StatusText(status)
		if r.stream {
			text = "one object on each line"
		}
		all[strconv.Itoa(status)] = object{"description": text, "content": content(kind, schema)}
	}
	return all
}

func content(kind string, schema any) object { return object{kind: object{"schema": schema}} }
