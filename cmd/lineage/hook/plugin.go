package hook

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
)

// plugin is for opencode, which has no hooks that run commands: this plugin calls our command.
//
//go:embed opencode.js
var plugin string

// mark is the beginning of a file that we wrote.
var mark = []byte("// Written by \"lineage setup opencode\"")

// replacePlugin is the plugin, or no file. A file that a setup did not write stays.
func (a Agent) replacePlugin(text []byte, program string, undo bool) ([]byte, error) {
	if text != nil && !bytes.HasPrefix(text, mark) {
		return nil, errors.New("the file was not written by lineage setup")
	}
	if undo {
		return nil, nil
	}
	quoted, err := json.Marshal(program)
	if err != nil {
		return nil, err
	}
	return bytes.ReplaceAll([]byte(a.plugin), []byte(`"LINEAGE"`), quoted), nil
}
