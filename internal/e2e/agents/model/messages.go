package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// messages is a request of the Anthropic Messages format, of Claude Code and opencode.
type messages struct {
	Model    string
	Stream   bool
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct{ Name string }
}

func (m *messages) tools() (names []string) {
	for _, t := range m.Tools {
		names = append(names, t.Name)
	}
	return names
}

func (m *messages) answered() (n int) {
	for _, x := range m.Messages {
		if x.Role == "assistant" {
			n++
		}
	}
	return n
}

// sub reports whether a subagent asks: the prompt is its first message.
func (m *messages) sub() bool {
	return len(m.Messages) > 0 && bytes.Contains(m.Messages[0].Content, []byte(Subagent))
}

func (m *messages) write(w http.ResponseWriter, t Turn) {
	reason := "end_turn"
	if len(t.Calls) > 0 {
		reason = "tool_use"
	}
	usage := map[string]any{"input_tokens": 10, "output_tokens": 10}
	message := map[string]any{"id": fmt.Sprintf("msg_%d", m.answered()), "type": "message", "role": "assistant",
		"model": m.Model, "content": []any{}, "usage": usage}
	if !m.Stream {
		message["content"] = []any{map[string]any{"type": "text", "text": t.Text}}
		message["stop_reason"] = reason
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	e := stream(w)
	e.send("message_start", map[string]any{"message": message})
	n := 0
	block := func(start, delta map[string]any) {
		e.send("content_block_start", map[string]any{"index": n, "content_block": start})
		e.send("content_block_delta", map[string]any{"index": n, "delta": delta})
		e.send("content_block_stop", map[string]any{"index": n})
		n++
	}
	if t.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": t.Text})
	}
	id := "toolu"
	if m.sub() {
		id = "toolu_sub"
	}
	for i, c := range t.Calls {
		block(map[string]any{"type": "tool_use", "id": fmt.Sprintf("%s_%d_%d", id, m.answered(), i),
			"name": c.Tool, "input": map[string]any{}},
			map[string]any{"type": "input_json_delta", "partial_json": encoded(c.Args)})
	}
	e.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason}, "usage": usage})
	e.send("message_stop", map[string]any{})
}
