package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// responses is a request of the OpenAI Responses format, of codex.
type responses struct {
	Input []struct {
		Type, Role string
		Content    json.RawMessage
	}
	Tools []struct {
		Type, Name string
		Tools      []struct{ Name string } // of a namespace
	}
}

func (r *responses) tools() (names []string) {
	for _, t := range r.Tools {
		names = append(names, t.Name)
		for _, inner := range t.Tools {
			names = append(names, inner.Name)
		}
	}
	return names
}

// answered counts calls that follow each other as one answer.
func (r *responses) answered() (n int) {
	calling := false
	for _, x := range r.Input {
		calls := x.Type == "function_call"
		if calls && !calling || x.Role == "assistant" {
			n++
		}
		calling = calls
	}
	return n
}

// sub reports whether a subagent asks: the prompt is the message of a user.
func (r *responses) sub() bool {
	for _, x := range r.Input {
		if x.Role == "user" && bytes.Contains(x.Content, []byte(Subagent)) {
			return true
		}
	}
	return false
}

func (r *responses) write(w http.ResponseWriter, t Turn) {
	e := stream(w)
	response := map[string]any{"id": fmt.Sprintf("resp_%d", r.answered())}
	e.send("response.created", map[string]any{"response": response})
	n := 0
	item := func(item map[string]any) {
		e.send("response.output_item.added", map[string]any{"output_index": n, "item": item})
		e.send("response.output_item.done", map[string]any{"output_index": n, "item": item})
		n++
	}
	if t.Text != "" {
		item(map[string]any{"type": "message", "id": "msg_1", "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": t.Text}}})
	}
	prefix := "call"
	if r.sub() {
		prefix = "call_sub"
	}
	for i, c := range t.Calls {
		id := fmt.Sprintf("%s_%d_%d", prefix, r.answered(), i)
		call := map[string]any{"type": "function_call", "id": "fc_" + id,
			"call_id": id, "name": c.Tool, "arguments": encoded(c.Args)}
		for _, space := range r.Tools {
			if slices.ContainsFunc(space.Tools,
				func(t struct{ Name string }) bool { return t.Name == c.Tool }) {
				call["namespace"] = space.Name
			}
		}
		item(call)
	}
	response["usage"] = map[string]any{"input_tokens": 10, "input_tokens_details": nil, "output_tokens": 10,
		"output_tokens_details": nil, "total_tokens": 20}
	e.send("response.completed", map[string]any{"response": response})
}
