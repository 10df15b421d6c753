package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// gemini is a request of the Gemini format, of gemini-cli.
type gemini struct {
	Contents []struct {
		Role  string
		Parts []struct{ Text string }
	}
	Tools []struct {
		FunctionDeclarations []struct{ Name string }
	}
	stream bool
}

func (g *gemini) tools() (names []string) {
	for _, t := range g.Tools {
		for _, f := range t.FunctionDeclarations {
			names = append(names, f.Name)
		}
	}
	return names
}

func (g *gemini) answered() (n int) {
	for _, c := range g.Contents {
		interrupted := len(c.Parts) > 0 && strings.HasPrefix(c.Parts[0].Text, "[The previous response was interrupted") // says the agent
		if c.Role == "model" && !interrupted {
			n++
		}
	}
	return n
}

func (g *gemini) write(w http.ResponseWriter, t Turn) {
	var parts []any
	if t.Text != "" {
		parts = append(parts, map[string]any{"text": t.Text})
	}
	for _, c := range t.Calls {
		parts = append(parts, map[string]any{"functionCall": map[string]any{"name": c.Tool, "args": c.Args}})
	}
	answer := map[string]any{
		"candidates": []any{map[string]any{"index": 0, "finishReason": "STOP",
			"content": map[string]any{"role": "model", "parts": parts}}},
		"usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 10,
			"totalTokenCount": 20},
	}
	if g.stream {
		stream(w).send("", answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
